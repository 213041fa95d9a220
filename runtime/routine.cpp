// Routines: binding static indices and launching.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>

#include "heddle/status.hpp"
#include "jit/system/inside.hpp"
#include "runtime/merge.hpp"
#include "runtime/steps.hpp"
#include "scheduler/observe/log.hpp"

namespace heddle {
namespace rt {
namespace {

/// One launch: everything that was decided when it was scheduled.
class Launch final : public Operation {
 public:
  Launch(std::shared_ptr<const Linked> what, std::vector<std::int64_t> values,
         std::function<void(const TracedValue&)> trace)
      : linked_(std::move(what)), statics_(std::move(values)), trace_(std::move(trace)) {}

  Status run(Execution& execution) override {
    return run_.emplace(execution, *linked_, inputs()).all();
  }
  Status ended(Execution& /*execution*/, Status status) noexcept override {
    return run_->ended(std::move(status));
  }
  [[nodiscard]] bool host_takes_part() const noexcept override {
    return rt::host_takes_part(*linked_, inputs());
  }
  /// The code reads the merge buffer: how is to be filled in.
  MergeRead& merging() { return merge_.emplace(); }

 private:
  [[nodiscard]] RunInputs inputs() const noexcept {
    return {statics_, merge_ ? &*merge_ : nullptr, trace_};
  }

  const std::shared_ptr<const Linked> linked_;
  const std::vector<std::int64_t> statics_;
  const std::function<void(const TracedValue&)> trace_;
  std::optional<MergeRead> merge_;
  std::optional<Run> run_;  // goes first
};

[[noreturn]] void refuse_binding(const Code& code, const StaticIndex& index,
                                 const std::string& why) {
  throw Error(ErrorCode::invalid_argument,
              fmt::format("routine '{}': static index '{}' {}", code.name(), index.label(), why));
}

/// Values in the order of the kernel; each bound once and inside its bounds.
std::vector<std::int64_t> bind(const Code& code, const Bindings& bindings) {
  const jit::CodeData& data = *Inside::of(code);
  const std::vector<jit::StaticBounds>& statics = data.signature().statics;
  std::vector<std::optional<std::int64_t>> bound(statics.size());
  for (const auto& [index, value] : bindings) {
    std::size_t at = 0;
    while (at < statics.size() && !(data.static_index(at) == index)) ++at;
    if (at == statics.size())
      refuse_binding(code, index, "is bound, but the routine has none such");
    auto& slot = bound[at];
    if (slot) refuse_binding(code, index, "is bound twice");
    if (const std::string mistake = value.mistake(); !mistake.empty())
      refuse_binding(code, index, "is bound to " + mistake);
    slot = value.now();
  }
  std::vector<std::int64_t> values;
  for (std::size_t k = 0; k < statics.size(); ++k) {
    if (!bound[k])
      refuse_binding(code, data.static_index(k),
                     "is not bound; give its value: schedule({{index, value}})");
    const jit::StaticBounds& bounds = statics[k];
    if (*bound[k] < bounds.lowest || *bound[k] > bounds.highest) {
      const std::string range =
          bounds.lowest > bounds.highest
              ? "no value fits its uses"
              : fmt::format("expected {} to {}", bounds.lowest, bounds.highest);
      refuse_binding(code, data.static_index(k),
                     fmt::format("is bound to {} ({})", *bound[k], range));
    }
    values.push_back(*bound[k]);
  }
  return values;
}

}  // namespace

Event schedule(const RoutineState& routine, const Bindings& bindings,
               const ScheduleOptions& options, const MergeSource* source,
               const std::source_location& where) {
  const DeviceState& device = *routine.context->device;
  std::shared_ptr<const Linked> linked = routine.context->routine();
  if (!linked) refuse_finalised(*routine.context);
  const Linked& code = *linked;
  if (options.trace && !Inside::of(routine.code)->options.trace_values) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("routine '{}' was compiled without value tracing; compile with "
                            "CompileOptions::trace_values",
                            routine.code.name()));
  }
  auto launch =
      std::make_unique<Launch>(std::move(linked), bind(routine.code, bindings), options.trace);
  sched::SubmitOptions submit;
  submit.after = options.after;
  submit.contain = options.contain;
  submit.full = options.full;
  submit.deadline = options.deadline;
  submit.site = where;
  sched::log_made(LogLevel::debug, [&] {
    return fmt::format("{} '{}' on {}", source == nullptr ? "schedule" : "merge and schedule",
                       routine.code.name(), device.execution->name);
  });
  // The task keeps `code` while it is being submitted.
  if (!Inside::of(routine.code)->signature().merge)
    return rt::submit(device, {code.label, std::move(launch), code.accesses}, submit);
  MergeRead& read = launch->merging();
  return submit_consumer(device, code, read, source, std::move(launch), submit);
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

Event Routine::schedule(const Bindings& bindings, const ScheduleOptions& options,
                        std::source_location where) const {
  return rt::schedule(*state_, bindings, options, nullptr, where);
}

std::string Routine::to_string() const {
  return fmt::format("routine {} on {} ({} entries)", name(),
                     state_->context->device->execution->name,
                     Inside::of(state_->code)->signature().entries.size());
}

}  // namespace heddle
