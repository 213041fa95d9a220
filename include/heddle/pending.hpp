// Pending: the result of a compile that goes on meanwhile (Backend::compile_async). A shared
// handle; moving one copies it, so that none is ever empty. Any thread may use it.
#pragma once

#include <chrono>
#include <memory>
#include <utility>

#include "heddle/code.hpp"
#include "heddle/scheduler.hpp"

namespace heddle::rt {
template <class T>
struct PendingState;
}  // namespace heddle::rt

#pragma GCC visibility push(default)
namespace heddle {

/// A compile under way, which ends by itself also when the last handle goes. A failure that get(),
/// wait_for() and the event have told nobody goes to the log, once, when the compile has ended and
/// the last handle is gone; that of a cancelled compile does not.
template <class T>
class Pending {
 public:
  Pending(const Pending&) = default;
  Pending& operator=(const Pending&) = default;

  [[nodiscard]] bool done() const noexcept;
  /// Done when the compile is; fails as it did: with the Status of the Error that get() throws.
  /// Devices may wait for it, callbacks and descriptors may be had of it.
  [[nodiscard]] const Event& event() const noexcept;
  /// Waits, then gives the result, or throws what the compile threw. Throws failed_precondition in
  /// a function that is being traced, where the compile waits for that function.
  [[nodiscard]] T get() const;
  /// Waits for the compile up to `timeout`, then gives how it ended. `deadline` when it still goes
  /// on, or when its own time was over: done() tells which.
  Status wait_for(std::chrono::nanoseconds timeout) const noexcept;
  /// Asks the compile to end: a compiler that runs is killed, and get() throws `cancelled`. A
  /// compile that is done stays so.
  void cancel() const noexcept;

 private:
  friend struct Inside;
  explicit Pending(std::shared_ptr<rt::PendingState<T>> state) noexcept
      : state_(std::move(state)) {}
  std::shared_ptr<rt::PendingState<T>> state_;
};

using PendingCode = Pending<Code>;
using PendingBatch = Pending<CodeBatch>;
extern template class Pending<Code>;
extern template class Pending<CodeBatch>;

}  // namespace heddle
#pragma GCC visibility pop
