// Routines: binding static indices and launching.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <limits>
#include <optional>
#include <stop_token>

#include "heddle/status.hpp"
#include "runtime/merge.hpp"
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

  Status run(Execution& execution) override;
  /// The code reads the merge buffer: how is to be filled in.
  MergeRead& merging() { return merge_.emplace(); }

 private:
  Status launch(const std::vector<heddle_kernel_buffer>& buffers) const;

  const std::shared_ptr<const Linked> linked_;
  const std::vector<std::int64_t> statics_;
  const std::function<void(const TracedValue&)> trace_;
  std::optional<MergeRead> merge_;
};

struct TraceContext {
  const std::function<void(const TracedValue&)>* sink;
  const std::vector<Tensor>* tensors;
  std::exception_ptr thrown;
};

/// Called by generated code: an exception must not pass through it.
void trace_value(void* context, std::uint32_t statement, std::uint32_t entry, std::int64_t offset,
                 double before, double after) {
  auto& trace = *static_cast<TraceContext*>(context);
  if (trace.thrown) return;
  try {
    (*trace.sink)({statement, (*trace.tensors)[entry].label(), offset, before, after});
  } catch (...) {
    trace.thrown = std::current_exception();
  }
}

Status Launch::run(Execution& execution) {
  if (!merge_) return launch(linked_->buffers);
  if (Status status = merge_->prepare(execution, *linked_); !status.ok()) return status;
  std::vector<heddle_kernel_buffer> buffers = linked_->buffers;
  buffers[*linked_->code.data().signature.merge] = merge_->buffer;
  return launch(buffers);
}

Status Launch::launch(const std::vector<heddle_kernel_buffer>& buffers) const {
  Execution& execution = *linked_->execution;
  heddle_kernel_status kernel_status{};
  TraceContext trace_context{&trace_, &linked_->code.data().lowered.tensors, nullptr};
  heddle_kernel_args args{};
  args.struct_size = sizeof args;
  args.abi = HEDDLE_KERNEL_ABI;
  args.buffers = buffers.data();
  args.num_buffers = static_cast<std::uint32_t>(buffers.size());
  args.num_statics = static_cast<std::uint32_t>(statics_.size());
  args.statics = statics_.data();
  args.num_parts = 1;
  args.status = &kernel_status;
  args.trace = trace_ ? &trace_value : nullptr;
  args.trace_context = &trace_context;
  alignas(std::atomic_ref<std::uint32_t>::required_alignment) std::uint32_t stop = 0;
  const auto raise = [&stop] {
    // relaxed: pairs with the kernel's load, and orders nothing.
    std::atomic_ref<std::uint32_t>(stop).store(1, std::memory_order_relaxed);
  };
  std::optional<std::stop_callback<decltype(raise)>> when_stopped;
  if (linked_->code.data().looks_at_stop) {  // others end soon, and do not pay for it
    args.stop = &stop;
    when_stopped.emplace(this_task::stop_token(), raise);
  }
  // relaxed: a number for people.
  execution.launches.fetch_add(1, std::memory_order_relaxed);
  Status status = execution.queue->launch(*linked_->module, linked_->kernel, args);
  if (status.ok()) status = execution.queue->synchronize();
  if (trace_context.thrown) std::rethrow_exception(trace_context.thrown);
  if (kernel_status.code == 0) return status;
  if (kernel_status.code == HEDDLE_KERNEL_STOPPED) {
    return Status(ErrorCode::cancelled,
                  fmt::format("routine '{}' on {} was told to stop while it ran: what it writes is "
                              "incomplete",
                              linked_->code.name(), execution.name));
  }
  // Devices need not look at what a kernel says; those that do say less of it.
  return Status(
      ErrorCode::device_failed,
      fmt::format("the kernel of routine '{}' on {} reported code {}, detail {}",
                  linked_->code.name(), execution.name, kernel_status.code, kernel_status.detail),
      std::move(status));
}

[[noreturn]] void refuse_binding(const Code& code, const StaticIndex& index,
                                 const std::string& why) {
  throw Error(ErrorCode::invalid_argument,
              fmt::format("routine '{}': static index '{}' {}", code.name(), index.label(), why));
}

/// Values in the order of the kernel; each bound once and inside its bounds.
std::vector<std::int64_t> bind(const Code& code, const Bindings& bindings) {
  const std::vector<StaticIndex>& statics = code.data().lowered.statics;
  std::vector<std::optional<std::int64_t>> bound(statics.size());
  for (const auto& [index, value] : bindings) {
    const auto at = std::ranges::find(statics, index);
    if (at == statics.end()) refuse_binding(code, index, "is bound, but the routine has none such");
    auto& slot = bound[static_cast<std::size_t>(at - statics.begin())];
    if (slot) refuse_binding(code, index, "is bound twice");
    if (const std::string mistake = value.mistake(); !mistake.empty())
      refuse_binding(code, index, "is bound to " + mistake);
    slot = value.now();
  }
  std::vector<std::int64_t> values;
  for (std::size_t k = 0; k < statics.size(); ++k) {
    if (!bound[k])
      refuse_binding(code, statics[k], "is not bound; give its value: schedule({{index, value}})");
    const jit::StaticBounds& bounds = code.data().signature.statics[k];
    if (*bound[k] < bounds.lowest || *bound[k] > bounds.highest) {
      const std::string range =
          bounds.lowest > bounds.highest
              ? "no value fits its uses"
              : fmt::format("expected {} to {}", bounds.lowest, bounds.highest);
      refuse_binding(code, statics[k], fmt::format("is bound to {} ({})", *bound[k], range));
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
  if (options.trace && !routine.code.data().options.trace_values) {
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
  if (!routine.code.data().signature.merge)
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
Context Routine::context() const { return Context(state_->context); }
Code Routine::code() const { return state_->code; }

Event Routine::schedule(const Bindings& bindings, const ScheduleOptions& options,
                        std::source_location where) const {
  return rt::schedule(*state_, bindings, options, nullptr, where);
}

std::string Routine::to_string() const {
  return fmt::format("routine {} on {} ({} entries)", name(),
                     state_->context->device->execution->name,
                     state_->code.data().signature.entries.size());
}

}  // namespace heddle
