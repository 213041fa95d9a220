// Pending: the result of a compile that goes on meanwhile (Backend::compile_async). A shared
// handle, which moving copies; any thread.
#pragma once

#include <chrono>
#include <memory>
#include <utility>

#include "heddle/code.hpp"
#include "heddle/scheduler.hpp"

namespace heddle {

namespace rt {
template <class T>
struct PendingState;
}  // namespace rt

/// A compile under way. Dropping the last handle lets it end by itself. A failure that nobody has
/// seen when it has ended and the last handle is gone goes to the log, once: seen is what get(),
/// wait_for() or the event gave somebody. One that was cancelled does not.
template <class T>
class Pending {
 public:
  Pending(const Pending&) = default;
  Pending& operator=(const Pending&) = default;

  [[nodiscard]] bool done() const noexcept;
  /// Done when the compile is; fails as it did: with the Status of the Error that get() throws.
  /// Devices may wait for it, callbacks and descriptors may be had of it.
  [[nodiscard]] const Event& event() const noexcept;
  /// Waits, then gives the result, or throws what the compile threw.
  [[nodiscard]] T get() const;
  /// Waits no longer than that; `deadline` when the compile still goes on, or ended so: done()
  /// tells which.
  Status wait_for(std::chrono::nanoseconds timeout) const noexcept;
  /// Asks the compile to end: a compiler that runs is killed, and get() throws `cancelled`. What is
  /// done stays.
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
