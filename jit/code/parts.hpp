// Work in parts that several threads take, in order. Those threads share it: one that was asked to
// stop may go before the others. Any thread.
#pragma once

#include <atomic>
#include <cstddef>
#include <exception>
#include <functional>
#include <string_view>
#include <vector>

namespace heddle::jit {

/// Calls `work` from up to `count` threads at once, and returns when all calls did. One call does
/// all that is left to do; it throws nothing.
using Spread = std::function<void(std::size_t count, const std::function<void()>& work)>;
/// The thread that asks does it all.
inline void unspread(std::size_t /*count*/, const std::function<void()>& work) { work(); }

class Parts {
 public:
  Parts(std::size_t count, std::function<void(std::size_t)> each)
      : each_(std::move(each)), failures_(count) {}

  /// Does parts until none is left or one failed. The parts before that one were taken before, and
  /// end: so the first failure in order is the same whatever the threads do.
  void work() noexcept;
  /// After a call of work(): nobody is at a part, nor will be, since none is left or one failed.
  [[nodiscard]] bool over() const noexcept;
  /// Once it is over.
  void rethrow_first() const;

 private:
  void take_parts() noexcept;

  const std::function<void(std::size_t)> each_;
  std::vector<std::exception_ptr> failures_;
  std::atomic<std::size_t> next_{0};
  std::atomic<bool> failed_{false};
  std::atomic<std::size_t> working_{0};
};

/// Calls each(k) for all k below `count`; `each` holds what it uses. Throws what the first of them
/// threw that failed, in order; cancelled, of `what`, when the task that asks was asked to stop.
void run_parts(std::size_t count, std::function<void(std::size_t)> each, const Spread& spread,
               std::string_view what);

}  // namespace heddle::jit
