// Routines: binding static indices and launching.
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "heddle/observe.hpp"
#include "heddle/status.hpp"
#include "runtime/context_state.hpp"

namespace heddle {
namespace rt {
namespace {

/// One launch: everything that was decided when it was scheduled.
struct Launch {
  std::shared_ptr<const Linked> linked;
  std::vector<std::int64_t> statics;
  std::function<void(const TracedValue&)> trace;

  Status operator()() const;

 private:
  Status fill(std::vector<heddle_kernel_buffer>& buffers) const;
};

std::string quoted(const std::optional<Tensor>& tensor) {
  return tensor ? "'" + tensor->label() + "'" : std::string("none");
}

/// Addresses per entry; the merge buffer's is what the slot holds now (O58), which must be what the
/// code expects (O32).
Status Launch::fill(std::vector<heddle_kernel_buffer>& buffers) const {
  const jit::CodeData& data = linked->code.data();
  for (std::size_t k = 0; k < linked->entries.size(); ++k) {
    const std::optional<BufferView>* view = &linked->entries[k];
    if (data.signature.merge && *data.signature.merge == k) {
      const MergeSlot& slot = linked->execution->merge;
      if (!slot.holder || !(*slot.holder == data.lowered.tensors[k])) {
        return Status(ErrorCode::failed_precondition,
                      fmt::format("routine '{}' merges tensor '{}', but the merge buffer of {} "
                                  "holds {}; load it before with merge() "
                                  "or load_merge()",
                                  linked->code.name(), data.lowered.tensors[k].label(),
                                  linked->execution->name, quoted(slot.holder)));
      }
      if (const auto only = data.options.merge_mode; only && *only != slot.mode) {
        return Status(
            ErrorCode::failed_precondition,
            fmt::format("routine '{}' was compiled for merges by {} only, but tensor "
                        "'{}' was loaded by {}",
                        linked->code.name(), name(*only), slot.holder->label(), name(slot.mode)));
      }
      view = &slot.view;
    }
    auto* const address = static_cast<std::byte*>((*view)->buffer().state()->address());
    if (address == nullptr && (*view)->num_bytes() > 0) {
      return Status(ErrorCode::failed_precondition,
                    fmt::format("routine '{}': the buffer of tensor '{}' was donated",
                                linked->code.name(), data.lowered.tensors[k].label()));
    }
    buffers.push_back(
        {address == nullptr ? nullptr : address + (*view)->offset(), (*view)->num_bytes()});
  }
  return {};
}

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

Status Launch::operator()() const {
  std::vector<heddle_kernel_buffer> buffers;
  buffers.reserve(linked->entries.size());
  if (Status status = fill(buffers); !status.ok()) return status;
  heddle_kernel_status kernel_status{};
  TraceContext trace_context{&trace, &linked->code.data().lowered.tensors, nullptr};
  heddle_kernel_args args{};
  args.struct_size = sizeof args;
  args.abi = HEDDLE_KERNEL_ABI;
  args.buffers = buffers.data();
  args.num_buffers = static_cast<std::uint32_t>(buffers.size());
  args.num_statics = static_cast<std::uint32_t>(statics.size());
  args.statics = statics.data();
  args.num_parts = 1;
  args.status = &kernel_status;
  args.trace = trace ? &trace_value : nullptr;
  args.trace_context = &trace_context;
  // relaxed: a number for people.
  linked->execution->launches.fetch_add(1, std::memory_order_relaxed);
  Status status = linked->execution->queue->launch(linked->step.function(), args);
  if (status.ok()) status = linked->execution->queue->synchronize();
  if (trace_context.thrown) std::rethrow_exception(trace_context.thrown);
  return status;
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
    slot = value;
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
}  // namespace rt

const std::string& Routine::name() const noexcept { return state_->linked->code.name(); }
Context Routine::context() const { return Context(state_->context); }
Code Routine::code() const { return state_->linked->code; }

Event Routine::schedule(const Bindings& bindings, const ScheduleOptions& options) const {
  rt::require_usable(*state_->context);
  const rt::Linked& linked = *state_->linked;
  if (options.trace && !linked.code.data().options.trace_values) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("routine '{}' was compiled without value tracing; compile with "
                            "CompileOptions::trace_values",
                            name()));
  }
  rt::Launch launch{state_->linked, rt::bind(linked.code, bindings), options.trace};
  sched::SubmitOptions submit;
  submit.after = options.after;
  submit.contain = options.contain;
  if (log_level() >= LogLevel::debug)
    log(LogLevel::debug, fmt::format("schedule '{}' on {}", name(), linked.execution->name));
  return rt::require_accepted(
      state_->context->device->timeline->submit(linked.label, std::move(launch), submit));
}

std::string Routine::to_string() const {
  return fmt::format("routine {} on {} ({} entries)", name(), state_->linked->execution->name,
                     state_->linked->entries.size());
}

}  // namespace heddle
