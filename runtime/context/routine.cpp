// Routine and Call: scheduling of launches, and queries.
#include <fmt/format.h>

#include "heddle/status.hpp"
#include "jit/system/inside.hpp"
#include "runtime/context/launch.hpp"
#include "runtime/device/backend_state.hpp"
#include "runtime/device/device_state.hpp"
#include "runtime/device/execution.hpp"
#include "scheduler/observe/log.hpp"

namespace heddle {
namespace rt {
namespace {

/// True if the options allow the fast path: no events, no trace, no containment of failures, and
/// the defaults for ordering and for a full queue.
bool is_plain(const ScheduleOptions& options) noexcept {
  return options.after.empty() && !options.trace && !options.contain && !options.sync &&
         !options.full;
}

}  // namespace

Event schedule(const RoutineState& routine, const Statics& statics, const ScheduleOptions& options,
               const MergeSource* source, const std::source_location& where) {
  const DeviceState& device = *routine.context->device;
  sched::log_made(LogLevel::debug, [&] {
    return fmt::format("{} '{}' on {}", source == nullptr ? "schedule" : "merge and schedule",
                       routine.code.name(), device.execution->name);
  });
  const bool small = routine.small && !options.trace;
  SmallLaunch launch;
  if (small) {
    statics.take(routine.code, launch.statics);
    Event event;
    if (is_plain(options) && submit_plainly(*routine.context, launch, event)) return event;
  }
  throw_if_failed(device.backend->fork_status());
  const std::shared_ptr<const Linked> linked = routine.context->routine();
  if (!linked) routine.context->refuse_finalised();
  if (small && !uses_fresh(linked->accesses))
    return submit_small(*routine.context, *linked, launch, submit_options(options, where));
  if (options.trace && !Inside::of(routine.code)->options.trace_values) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("routine '{}' was compiled without value tracing; compile with "
                            "CompileOptions::trace_values",
                            routine.code.name()));
  }
  return submit_launch(*routine.context, *linked, statics, options.trace, source,
                       submit_options(options, where));
}

}  // namespace rt

std::string BoundValue::mistake() const {
  if (kind_ == Kind::large) {
    return fmt::format("{}, which does not fit 63 bits", static_cast<std::uint64_t>(value_));
  }
  return kind_ == Kind::cell && cell_ == nullptr ? "a null cell" : "";
}

const std::string& Routine::name() const noexcept { return state_->code.name(); }
Context Routine::context() const { return Inside::make<Context>(state_->context); }
Code Routine::code() const { return state_->code; }

Event Routine::schedule(BindingsView bindings, const ScheduleOptions& options,
                        std::source_location where) const {
  return rt::schedule(*state_, rt::Statics(bindings), options, nullptr, where);
}

Call Routine::prepare(BindingsView bindings) const {
  return Inside::make<Call>(std::make_shared<const rt::CallState>(
      rt::CallState{*this, rt::BoundStatics(state_->code, bindings)}));
}

Routine Call::routine() const { return state_->routine; }

Event Call::schedule(const ScheduleOptions& options, std::source_location where) const {
  return rt::schedule(*Inside::of(state_->routine), rt::Statics(state_->statics), options, nullptr,
                      where);
}

std::string Routine::to_string() const {
  return fmt::format("routine {} on {} ({} entries)", name(),
                     state_->context->device->execution->name,
                     Inside::of(state_->code)->signature().entries.size());
}

}  // namespace heddle
