// Compiles that go on meanwhile, and batches on several processors: tasks of a scheduler, each on
// a pooled device of its own. Its few threads start with the first of them, and end with it; a
// forked child gets `unavailable`. Any thread.
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

/// Limits of a compile that begins now and may take that long.
[[nodiscard]] jit::CompileLimits limits_of(const std::optional<std::chrono::nanoseconds>& timeout);

/// How the scheduler is made that compiles of a backend run on, beside that of its devices: where
/// these are simulated a compile is done in the call, for threads would be the seed's rivals.
[[nodiscard]] SchedulerOptions compile_scheduling(const Scheduler& of_devices);

/// A device for one compile. Throws Error(unavailable) after shutdown and in forked children.
[[nodiscard]] sched::TaskDevice new_compile_device(Scheduler& scheduler);

/// Gives work to as many tasks as there are processors, and to the calling thread.
[[nodiscard]] jit::Spread spread_over(Scheduler scheduler);

/// What a pending compile and its waiters share. `value` and `device` are written before the event
/// is done; `value` is read after.
template <class T>
struct PendingState {
  Event event;
  std::stop_source stop;
  std::optional<T> value;
  std::optional<sched::TaskDevice> device;  // knows whether somebody has seen a failure
};

/// Starts `compile(limits)`, with a stop token of its own.
template <class T, class F>
Pending<T> start_compile(Scheduler& scheduler, jit::CompileLimits limits, F compile) {
  auto state = std::make_shared<PendingState<T>>();
  sched::TaskDevice device = new_compile_device(scheduler);
  limits.stop = state->stop.get_token();
  // The task holds its own device, which closes with it.
  auto task = [state, device, limits, compile = std::move(compile)]() mutable {
    // When its time is over, the scheduler asks the task itself.
    const std::stop_callback on_shutdown(this_task::stop_token(),
                                         [&state] { state->stop.request_stop(); });
    try {
      state->value = compile(limits);
    } catch (...) {
      // The device stays open while somebody may ask for the failure: it goes to the log after.
      state->device = std::move(device);
      throw;
    }
  };
  sched::SubmitOptions contained;  // the result tells; nobody else cares
  contained.contain = true;
  contained.own_status = true;
  state->event = device.submit("compile", std::move(task), contained);
  if (!state->event.accepted()) throw Error(state->event.status());
  return Inside::make<Pending<T>>(std::move(state));
}

}  // namespace heddle::rt
