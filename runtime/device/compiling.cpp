// See runtime/device/compiling.hpp.
#include "runtime/device/compiling.hpp"

#include <algorithm>
#include <exception>
#include <optional>
#include <type_traits>
#include <vector>

#include "heddle/executor_core.hpp"
#include "jit/system/process.hpp"
#include "runtime/device/flight.hpp"
#include "scheduler/threads/task_context.hpp"

namespace heddle::rt {

jit::CompileLimits limits_of(const std::optional<std::chrono::nanoseconds>& timeout) {
  jit::CompileLimits limits;
  if (timeout) {
    limits.deadline = jit::deadline_after(std::chrono::ceil<std::chrono::milliseconds>(*timeout));
  }
  return limits;
}

SchedulerOptions compile_scheduling(const Scheduler& of_devices) {
  SchedulerOptions options;
  options.device.mode = of_devices.simulated() ? sched::Mode::inline_ : sched::Mode::pooled;
  options.device.queue_size = 1;
  return options;
}

sched::TaskDevice new_compile_device(Scheduler& scheduler) {
  return scheduler.new_device("compile");
}

jit::Spread spread_over(Scheduler scheduler) {
  return [scheduler = std::move(scheduler)](std::size_t count,
                                            const std::function<void()>& work) mutable {
    struct Helper {
      sched::TaskDevice device;
      Event event;
    };
    std::vector<Helper> helpers;
    // Inside a callback that may not wait for helpers, the caller works alone.
    const std::size_t helpers_wanted =
        count == 0 || sched::TellsEnds::in_callback()
            ? 0
            : std::min<std::size_t>(count, available_processors()) - 1;
    for (std::size_t k = 0; k < helpers_wanted; ++k) {
      helpers.push_back({new_compile_device(scheduler), {}});
      helpers.back().event = helpers.back().device.submit("compile", [work] { work(); });
    }
    work();
    // In a task that is asked to stop, the wait ends early; helpers share ownership of their work.
    for (const Helper& helper : helpers) static_cast<void>(helper.event.wait());
  };
}

}  // namespace heddle::rt

namespace heddle {

namespace {
/// True for compiles of executors, which may wait for a function traced by this thread.
template <class T>
constexpr bool is_executors = std::is_same_v<T, executors::EntryHandle>;
}  // namespace

template <class T>
bool Pending<T>::done() const noexcept {
  return state_->event.done();
}
template <class T>
const Event& Pending<T>::event() const noexcept {
  return state_->event;
}
template <class T>
T Pending<T>::get() const {
  std::optional<rt::FlightWait> waiting;
  if (is_executors<T> && !done()) waiting.emplace(state_->event);
  const Status status = state_->event.wait();
  if (state_->event.done() && state_->value) return *state_->value;
  if (const std::exception_ptr thrown = status.exception()) std::rethrow_exception(thrown);
  throw Error(status);
}
template <class T>
Status Pending<T>::wait_for(std::chrono::nanoseconds timeout) const noexcept {
  std::optional<rt::FlightWait> waiting;
  try {
    if (is_executors<T> && !done()) waiting.emplace(state_->event);
  } catch (...) {
    return executors::caught();
  }
  return state_->event.wait_for(timeout);
}
template <class T>
void Pending<T>::cancel() const noexcept {
  state_->stop.request_stop();
}
template class Pending<Code>;
template class Pending<CodeBatch>;
template class Pending<executors::EntryHandle>;

}  // namespace heddle
