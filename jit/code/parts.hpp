// Work in parts, which several threads take in order. The threads share ownership of the work: a
// thread that was asked to stop may leave before the rest. Any thread.
#pragma once

#include <atomic>
#include <cstddef>
#include <exception>
#include <functional>
#include <string_view>
#include <vector>

namespace heddle::jit {

/// Calls `work` from up to `count` threads at once, and returns after all calls have returned. One
/// call alone does all remaining work; `work` does not throw.
using Spread = std::function<void(std::size_t count, const std::function<void()>& work)>;
/// The calling thread does all work.
inline void unspread(std::size_t /*count*/, const std::function<void()>& work) { work(); }

class Parts {
 public:
  Parts(std::size_t count, std::function<void(std::size_t)> each)
      : each_(std::move(each)), failures_(count) {}

  /// Takes parts until none is left or one failed. Every part before the failed part was taken
  /// earlier and runs to its end; therefore the first failure in order is the same in every run.
  void work() noexcept;
  /// After a call of work(): no thread is at a part, and none will take one, because none is left
  /// or one failed.
  [[nodiscard]] bool over() const noexcept;
  /// Call only when over() is true.
  void rethrow_first() const;

 private:
  void take_parts() noexcept;

  const std::function<void(std::size_t)> each_;
  std::vector<std::exception_ptr> failures_;
  std::atomic<std::size_t> next_{0};
  std::atomic<bool> failed_{false};
  std::atomic<std::size_t> working_{0};
};

/// Calls each(k) for all k below `count`; `each` must own its captured objects. Throws the
/// exception of the first failed part, in order; throws cancelled, naming `what`, when the calling
/// task was asked to stop.
void run_parts(std::size_t count, std::function<void(std::size_t)> each, const Spread& spread,
               std::string_view what);

}  // namespace heddle::jit
