// Pending: the result of a compile that goes on meanwhile (Backend::compile_async). A shared
// handle, which moving copies; any thread.
#pragma once

#include <chrono>
#include <exception>
#include <memory>
#include <optional>
#include <stop_token>
#include <utility>

#include "heddle/code.hpp"
#include "heddle/scheduler.hpp"

namespace heddle {

namespace rt {
/// What a pending compile and its waiters share. `value` and `device` are written before the event
/// is done; `value` is read after.
template <class T>
struct PendingState {
  Event event;
  std::stop_source stop;
  std::optional<T> value;
  std::optional<sched::Device> device;  ///< of a failure: it knows whether somebody has seen it
};
}  // namespace rt

/// A compile under way. Dropping the last handle lets it end by itself. A failure that nobody has
/// seen when it has ended and the last handle is gone goes to the log, once: seen is what get(),
/// wait_for() or the event gave somebody. One that was cancelled does not.
template <class T>
class Pending {
 public:
  explicit Pending(std::shared_ptr<rt::PendingState<T>> state) noexcept
      : state_(std::move(state)) {}
  Pending(const Pending&) = default;
  Pending& operator=(const Pending&) = default;

  [[nodiscard]] bool done() const noexcept { return state_->event.done(); }
  /// Done when the compile is; fails as it did: with the Status of the Error that get() throws.
  /// Devices may wait for it, callbacks and descriptors may be had of it.
  [[nodiscard]] const Event& event() const noexcept { return state_->event; }
  /// Waits, then gives the result, or throws what the compile threw.
  [[nodiscard]] T get() const {
    const Status status = state_->event.wait();
    if (state_->event.done() && state_->value) return *state_->value;
    if (const std::exception_ptr thrown = status.exception()) std::rethrow_exception(thrown);
    throw Error(status);
  }
  /// Waits no longer than that; `deadline` when the compile still goes on, or ended so: done()
  /// tells which.
  Status wait_for(std::chrono::nanoseconds timeout) const noexcept {
    return state_->event.wait_for(timeout);
  }
  /// Asks the compile to end: a compiler that runs is killed, and get() throws `cancelled`. What is
  /// done stays.
  void cancel() const noexcept { state_->stop.request_stop(); }

 private:
  std::shared_ptr<rt::PendingState<T>> state_;
};

using PendingCode = Pending<Code>;
using PendingBatch = Pending<CodeBatch>;

}  // namespace heddle
