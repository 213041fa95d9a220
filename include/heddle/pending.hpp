// Pending: the result of a compile in progress (Backend::compile_async). A shared handle; a move
// copies the handle, so no handle is ever empty. Thread-safe.
#pragma once

#include <memory>
#include <utility>

#include "heddle/code.hpp"
#include "heddle/duration.hpp"
#include "heddle/scheduler.hpp"

namespace heddle::rt {
template <class T>
struct PendingState;
}  // namespace heddle::rt

#pragma GCC visibility push(default)
namespace heddle {

/// A compile in progress, which completes even if the last handle is destroyed. A failure that
/// neither get() nor wait_for() nor the event has reported to a caller is logged once, when the
/// compile has ended and the last handle is destroyed; the failure of a cancelled compile is not
/// logged.
template <class T>
class Pending {
 public:
  Pending(const Pending&) = default;
  Pending& operator=(const Pending&) = default;

  [[nodiscard]] bool done() const noexcept;
  /// Done when the compile is done; fails with the Status of the Error that get() throws. Devices
  /// may wait for the event; callbacks and descriptors work as for any event.
  [[nodiscard]] const Event& event() const noexcept;
  /// Waits, then returns the result or rethrows the compile's error. Throws failed_precondition
  /// inside a function being traced, if the compile waits for that trace.
  [[nodiscard]] T get() const;
  /// Waits for the compile up to `timeout`, then returns its status. `deadline` if the compile is
  /// still running or ran out of its own time: done() tells which.
  Status wait_for(std::chrono::nanoseconds timeout) const noexcept;
  /// Requests the compile to end: a running compiler is killed, and get() throws `cancelled`. No
  /// effect on a finished compile.
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
