// Asynchronous compiles, and batches compiled on several processors: tasks of a scheduler, with a
// pooled device per compile. The scheduler's few threads start with the first compile and end with
// the scheduler. Throws unavailable in a forked child. Any thread.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <utility>

#include "heddle/pending.hpp"
#include "jit/code/code.hpp"
#include "jit/system/inside.hpp"

namespace heddle::rt {

/// Limits of a compile that starts now, with an optional timeout.
[[nodiscard]] jit::CompileLimits limits_of(const std::optional<std::chrono::nanoseconds>& timeout);

/// Options of the scheduler for a backend's compiles, beside the scheduler of its devices. If the
/// devices are simulated, the compile runs inside the call: threads would make a simulation
/// irreproducible.
[[nodiscard]] SchedulerOptions compile_scheduling(const Scheduler& of_devices);

/// A device for one compile. Throws Error(unavailable) after shutdown and in forked children.
[[nodiscard]] sched::TaskDevice new_compile_device(Scheduler& scheduler);

/// Runs work on as many tasks as there are processors, including the calling thread.
[[nodiscard]] jit::Spread spread_over(Scheduler scheduler);

/// State shared by a pending compile and its waiters. `value` and `device` are written before the
/// event is done; `value` is read afterwards.
template <class T>
struct PendingState {
  Event event;
  std::stop_source stop;
  std::optional<T> value;
  std::optional<sched::TaskDevice> device;  // records whether a failure was seen
};

/// Starts `compile(limits)` with its own stop token. Throws the status of a refused task.
template <class T, class F>
Pending<T> start_compile(Scheduler& scheduler, jit::CompileLimits limits, F compile) {
  auto state = std::make_shared<PendingState<T>>();
  sched::TaskDevice device = new_compile_device(scheduler);
  limits.stop = state->stop.get_token();
  // The task holds its device, which closes with the task.
  auto task = [state, device, limits, compile = std::move(compile)]() mutable {
    // At the deadline of a shutdown, the scheduler requests a stop of the task.
    const std::stop_callback on_shutdown(this_task::stop_token(),
                                         [&state] { state->stop.request_stop(); });
    try {
      state->value = compile(limits);
    } catch (...) {
      // The device stays open while a holder may ask for the failure; an unseen failure is logged
      // later.
      state->device = std::move(device);
      throw;
    }
  };
  sched::SubmitOptions contained;  // the result reports a failure; no other task depends on it
  contained.contain = true;
  contained.own_status = true;
  state->event = device.submit("compile", std::move(task), contained);
  if (!state->event.accepted()) throw Error(state->event.status());
  return Inside::make<Pending<T>>(std::move(state));
}

}  // namespace heddle::rt
