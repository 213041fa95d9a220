// Routines: binding static indices and launching.
#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "heddle/status.hpp"
#include "jit/system/inside.hpp"
#include "runtime/device_state.hpp"
#include "runtime/execution.hpp"
#include "runtime/launch.hpp"
#include "scheduler/observe/log.hpp"

namespace heddle {
namespace rt {
namespace {

[[noreturn]] void refuse_binding(const Code& code, const StaticIndex& index,
                                 const std::string& why) {
  throw Error(ErrorCode::invalid_argument,
              fmt::format("routine '{}': static index '{}' {}", code.name(), index.label(), why));
}

/// Nothing but when and where: no event to wait for, no trace, no other way to be queued.
bool is_plain(const ScheduleOptions& options) noexcept {
  return options.after.empty() && !options.trace && !options.contain && !options.full;
}

}  // namespace

void bind_statics(const Code& code, BindingsView bindings, std::span<std::int64_t> values) {
  const jit::CodeData& data = *Inside::of(code);
  const std::vector<jit::StaticBounds>& statics = data.signature().statics;
  for (auto at = bindings.begin(); at != bindings.end(); ++at) {
    const auto& [index, value] = *at;
    std::size_t k = 0;
    while (k < statics.size() && !(data.static_index(k) == index)) ++k;
    if (k == statics.size()) refuse_binding(code, index, "is bound, but the routine has none such");
    if (std::any_of(bindings.begin(), at,
                    [&](const auto& before) { return before.first == index; }))
      refuse_binding(code, index, "is bound twice");
    if (const std::string mistake = value.mistake(); !mistake.empty())
      refuse_binding(code, index, "is bound to " + mistake);
    values[k] = value.now();
  }
  for (std::size_t k = 0; k < statics.size(); ++k) {
    const StaticIndex& index = data.static_index(k);
    if (std::ranges::none_of(bindings, [&](const auto& bound) { return bound.first == index; })) {
      refuse_binding(code, index, "is not bound; give its value: schedule({{index, value}})");
    }
    const jit::StaticBounds& bounds = statics[k];
    if (values[k] >= bounds.lowest && values[k] <= bounds.highest) continue;
    const std::string range = bounds.lowest > bounds.highest
                                  ? "no value fits its uses"
                                  : fmt::format("expected {} to {}", bounds.lowest, bounds.highest);
    refuse_binding(code, index, fmt::format("is bound to {} ({})", values[k], range));
  }
}

Event schedule(const RoutineState& routine, BindingsView bindings, const ScheduleOptions& options,
               const MergeSource* source, const std::source_location& where) {
  const DeviceState& device = *routine.context->device;
  sched::log_made(LogLevel::debug, [&] {
    return fmt::format("{} '{}' on {}", source == nullptr ? "schedule" : "merge and schedule",
                       routine.code.name(), device.execution->name);
  });
  const bool small = routine.small && !options.trace;
  SmallLaunch launch;
  if (small) {
    bind_statics(routine.code, bindings, launch.statics);
    Event event;
    if (is_plain(options) && submit_plainly(*routine.context, launch, event)) return event;
  }
  std::shared_ptr<const Linked> linked = routine.context->routine();
  if (!linked) refuse_finalised(*routine.context);
  if (small) return submit_small(*routine.context, *linked, launch, submit_options(options, where));
  if (options.trace && !Inside::of(routine.code)->options.trace_values) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("routine '{}' was compiled without value tracing; compile with "
                            "CompileOptions::trace_values",
                            routine.code.name()));
  }
  return submit_launch(*routine.context, std::move(linked), bindings, options.trace, source,
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
  return rt::schedule(*state_, bindings, options, nullptr, where);
}

std::string Routine::to_string() const {
  return fmt::format("routine {} on {} ({} entries)", name(),
                     state_->context->device->execution->name,
                     Inside::of(state_->code)->signature().entries.size());
}

}  // namespace heddle
