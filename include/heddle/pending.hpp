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
/// What a pending compile and its waiters share. `value` and `failure` are written before the event
/// is done and read after.
template <class T>
struct PendingState {
  Event event;
  std::stop_source stop;
  std::optional<T> value;
  std::exception_ptr failure;
};
}  // namespace rt

/// A compile under way. Dropping the last handle lets it end by itself.
template <class T>
class Pending {
 public:
  explicit Pending(std::shared_ptr<rt::PendingState<T>> state) noexcept
      : state_(std::move(state)) {}
  Pending(const Pending&) = default;
  Pending& operator=(const Pending&) = default;

  [[nodiscard]] bool done() const noexcept { return state_->event.done(); }
  /// Done when the compile is; fails as it did. Devices may wait for it, callbacks and descriptors
  /// may be had of it.
  [[nodiscard]] const Event& event() const noexcept { return state_->event; }
  /// Waits, then gives the result, or throws what the compile threw.
  [[nodiscard]] T get() const {
    const Status status = state_->event.wait();
    if (state_->event.done()) {
      if (state_->value) return *state_->value;
      if (state_->failure) std::rethrow_exception(state_->failure);
    }
    throw Error(status);
  }
  /// Waits no longer than that; `deadline` when the compile still goes on.
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
