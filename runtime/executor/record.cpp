// See runtime/executor/record.hpp.
#include "runtime/executor/record.hpp"

#include <algorithm>
#include <functional>
#include <new>
#include <span>

#include "jit/system/inside.hpp"
#include "runtime/device/execution.hpp"
#include "runtime/executor/variable_state.hpp"
#include "runtime/memory/buffer_state.hpp"
#include "scheduler/device/timeline.hpp"
#include "scheduler/threads/never_destroyed.hpp"
#include "scheduler/threads/thread_number.hpp"

namespace heddle::rt {
namespace {

RunInputs no_inputs() noexcept {
  static sched::NeverDestroyed<const std::function<void(const TracedValue&)>> no_trace;
  return {{}, nullptr, *no_trace};
}

/// After a failed plain call. A call that did not begin leaves the old values in place.
void lose_updated(const CompiledGraph& graph) noexcept {
  for (const CompiledGraph::VariableUse& use : graph.variables) {
    if (use.first_result) use.variable->lose();
  }
}

/// True: the calls are one kernel each, which needs little of a stack and does not wait.
bool is_short(const Site& site) noexcept {
  return site.loaded.single && site.loaded.single->fits_any_stack;
}

void construct_small(void* to, void* from) noexcept {
  ::new (to) SmallCall(*static_cast<const SmallCall*>(from));
}
void destroy_small(void* callable) noexcept {
  Site& site = *static_cast<SmallCall*>(callable)->site;
  if (site.launches.end(sched::thread_number())) delete &site;
}
bool run_small(void* callable, Status& failure) {
  const auto& call = *static_cast<const SmallCall*>(callable);
  Site& site = *call.site;
  const SmallBuffers& small = *site.small;
  heddle_kernel_buffer buffers[SmallBuffers::max];
  for (std::uint32_t k = 0; k < small.num_buffers; ++k)
    buffers[k] = {call.data[k], small.buffers[k].bytes};
  site.execution->count_launches(1);
  failure = run_single(*site.execution, site.loaded, buffers, {});
  if (failure.ok()) {
    destroy_small(callable);
  } else {
    lose_updated(*site.graph);
  }
  return failure.ok();
}

}  // namespace

const sched::TaskOps& SmallCall::ops(const Site& site) noexcept {
  static constexpr sched::TaskOps any{&construct_small, &run_small, &destroy_small};
  static constexpr sched::TaskOps short_one{&construct_small, &run_small, &destroy_small,
                                            nullptr,          nullptr,    true};
  return is_short(site) ? short_one : any;
}

CallRecord::CallRecord(Site& site) : site_(site) {
  tables.begin(site_.loaded, site_.scratch.get());
}

std::unique_ptr<CallRecord> CallRecord::make(Site& site) {
  // The free list of a site holds records only.
  if (auto* const spare = static_cast<CallRecord*>(site.spares.take()))
    return std::unique_ptr<CallRecord>(spare);
  return std::unique_ptr<CallRecord>(new CallRecord(site));
}

void CallRecord::accepted() noexcept { site_.launches.begin(); }

Status CallRecord::run(Execution& execution) {
  execution.count_launches(1);
  const Loaded& loaded = site_.loaded;
  Status status = loaded.single ? run_single(execution, loaded, tables.of_single(), {})
                                : run_.emplace(execution, loaded, tables, no_inputs(), room_).all();
  leaves_values_ = status.ok() && !execution.queue->runs_ahead();
  return status;
}

Status CallRecord::ended(Execution& /*execution*/, Status status) noexcept {
  Status how = run_ ? run_->ended(std::move(status)) : std::move(status);
  leaves_values_ = how.ok();
  return how;
}

/// Earlier tasks of the device have ended by now; other devices may still fill the value to be
/// copied.
void CallRecord::pass_over(Execution& execution) noexcept {
  leaves_values_ = std::ranges::all_of(kept, [&](const Kept& each) {
    const bool stays = each.move.route == Route::none;
    const bool there = each.ours ? ended_well(each.filled)
                                 : stays || each.filled.device_id() == site_.timeline ||
                                       sched::Timeline::has_ended(each.filled);
    return there && each.move.run().ok() && (stays || execution.queue->settle().ok());
  });
}

void CallRecord::retire(std::shared_ptr<Execution> /*execution*/) noexcept {
  run_.reset();
  accesses.clear();
  // Before the end of the task is visible, as recall() may follow at once.
  for (const Kept& each : kept) {
    if (!leaves_values_) each.variable->lose();
  }
  kept.clear();
  leaves_values_ = false;
  Site& site = site_;
  site.spares.give(*this);  // the record may go with the site
  if (site.launches.end(sched::thread_number())) delete &site;
}

bool CallRecord::run_plain_task(void* callable, Status& failure) {
  CallRecord& record = **static_cast<CallRecord**>(callable);
  failure = record.run(*record.site_.execution);
  if (failure.ok()) {
    record.retire(nullptr);
  } else {
    lose_updated(*record.site_.graph);
  }
  return failure.ok();
}

void CallRecord::destroy_plain_task(void* callable) noexcept {
  (*static_cast<CallRecord**>(callable))->retire(nullptr);
}

const sched::TaskOps& CallRecord::ops(const Site& site) noexcept {
  constexpr auto construct = [](void* to, void* from) noexcept {
    *static_cast<CallRecord**>(to) = static_cast<CallRecord*>(from);
  };
  static constexpr sched::TaskOps any{construct, &run_plain_task, &destroy_plain_task};
  static constexpr sched::TaskOps short_one{construct, &run_plain_task, &destroy_plain_task,
                                            nullptr,   nullptr,         true};
  return is_short(site) ? short_one : any;
}

}  // namespace heddle::rt
