// See steps.hpp.
#include "runtime/steps.hpp"

#include <fmt/format.h>

#include <atomic>
#include <exception>
#include <optional>
#include <stop_token>
#include <variant>
#include <vector>

#include "heddle/status.hpp"

namespace heddle::rt {
namespace {

struct TraceContext {
  const std::function<void(const TracedValue&)>* sink;
  const jit::CodeData* code;
  const std::vector<std::uint32_t>* entries;  // of the kernel that runs
  std::exception_ptr thrown{};
};

/// Called by generated code: an exception must not pass through it.
void trace_value(void* context, std::uint32_t statement, std::uint32_t entry, std::int64_t offset,
                 double before, double after) {
  auto& trace = *static_cast<TraceContext*>(context);
  if (trace.thrown) return;
  try {
    const std::string_view label = trace.code->label((*trace.entries)[entry]);
    (*trace.sink)({statement, std::string(label), offset, before, after});
  } catch (...) {
    trace.thrown = std::current_exception();
  }
}

class Run {
 public:
  Run(Execution& execution, const Linked& linked, const RunInputs& inputs)
      : execution_(execution),
        linked_(linked),
        inputs_(inputs),
        queue_(*execution.queue),
        trace_{&inputs.trace, &linked.code.data(), nullptr} {}

  Status all() {
    // relaxed: a number for people.
    execution_.launches.fetch_add(1, std::memory_order_relaxed);
    Status status;
    for (const LinkedStep& step : linked_.steps) {
      status = std::visit([&](const auto& what) { return one(what, step); }, step.step);
      if (!status.ok()) break;
    }
    return status;
  }

 private:
  Status one(const jit::KernelStep& kernel, const LinkedStep& step) {
    // A long program may be many short kernels, none of which looks.
    if (has_called_ && this_task::stop_token().stop_requested()) {
      said_.code = HEDDLE_KERNEL_STOPPED;
      return what_it_said({});
    }
    has_called_ = true;
    trace_.entries = &kernel.entries;
    std::vector<heddle_kernel_buffer> merged;
    std::vector<std::int64_t> some;
    heddle_kernel_args args{};
    args.struct_size = sizeof args;
    args.abi = HEDDLE_KERNEL_ABI;
    args.buffers = buffers(kernel, step, merged).data();
    args.num_buffers = static_cast<std::uint32_t>(kernel.entries.size());
    args.statics = statics(kernel, some).data();
    args.num_statics = static_cast<std::uint32_t>(kernel.statics.size());
    args.num_parts = 1;
    args.status = &said_;
    args.trace = inputs_.trace ? &trace_value : nullptr;
    args.trace_context = &trace_;
    if (kernel.looks_at_stop) {  // others end soon, and do not pay for it
      args.stop = &stop_;
      if (!when_stopped_) when_stopped_.emplace(this_task::stop_token(), Raise{stop_});
    }
    Status status = queue_.launch(*step.module, kernel.index, args);
    if (status.ok()) status = queue_.synchronize();
    if (trace_.thrown) std::rethrow_exception(trace_.thrown);
    return said_.code == 0 ? status : what_it_said(std::move(status));
  }

  Status one(const jit::CopyStep& copy, const LinkedStep& /*step*/) {
    const heddle_kernel_buffer to = buffer(copy.to), from = buffer(copy.from);
    return ended(queue_.copy(to.data, from.data, from.bytes));
  }

  Status one(const jit::ZeroStep& zero, const LinkedStep& /*step*/) {
    const heddle_kernel_buffer to = buffer(zero.entry);
    return ended(queue_.zero(to.data, to.bytes));
  }

  Status one(const jit::MergeStep& /*merge*/, const LinkedStep& /*step*/) {
    return inputs_.merge->prepare(execution_, linked_);
  }

  Status one(const jit::CallStep& call, const LinkedStep& /*step*/) { return call.call(); }

  /// What comes next finds it done.
  Status ended(Status status) { return status.ok() ? queue_.synchronize() : status; }

  heddle_kernel_buffer buffer(std::uint32_t entry) const {
    return entry == linked_.code.data().signature().merge ? inputs_.merge->buffer
                                                          : linked_.buffers[entry];
  }

  /// Those of the kernel; made in `merged` where the merge buffer is among them.
  const std::vector<heddle_kernel_buffer>& buffers(
      const jit::KernelStep& kernel, const LinkedStep& step,
      std::vector<heddle_kernel_buffer>& merged) const {
    const auto& merge = linked_.code.data().signature().merge;
    if (!merge) return step.buffers;
    for (const std::uint32_t entry : kernel.entries) merged.push_back(buffer(entry));
    return merged;
  }

  std::span<const std::int64_t> statics(const jit::KernelStep& kernel,
                                        std::vector<std::int64_t>& some) const {
    if (kernel.statics.size() == inputs_.statics.size()) return inputs_.statics;
    for (const std::uint32_t k : kernel.statics) some.push_back(inputs_.statics[k]);
    return some;
  }

  Status what_it_said(Status status) const {
    if (said_.code == HEDDLE_KERNEL_STOPPED) {
      return Status(ErrorCode::cancelled,
                    fmt::format("routine '{}' on {} was told to stop while it ran: what it writes "
                                "is incomplete",
                                linked_.code.name(), execution_.name));
    }
    // Devices need not look at what a kernel says; those that do say less of it.
    return Status(ErrorCode::device_failed,
                  fmt::format("the kernel of routine '{}' on {} reported code {}, detail {}",
                              linked_.code.name(), execution_.name, said_.code, said_.detail),
                  std::move(status));
  }

  struct Raise {
    std::uint32_t& stop;
    void operator()() const noexcept {
      // relaxed: pairs with the kernel's load, and orders nothing.
      std::atomic_ref<std::uint32_t>(stop).store(1, std::memory_order_relaxed);
    }
  };

  Execution& execution_;
  const Linked& linked_;
  const RunInputs& inputs_;
  dev::Queue& queue_;
  TraceContext trace_;
  bool has_called_ = false;  // a kernel
  heddle_kernel_status said_{};
  alignas(std::atomic_ref<std::uint32_t>::required_alignment) std::uint32_t stop_ = 0;
  std::optional<std::stop_callback<Raise>> when_stopped_;
};

}  // namespace

Status run_steps(Execution& execution, const Linked& linked, const RunInputs& inputs) {
  return Run(execution, linked, inputs).all();
}

}  // namespace heddle::rt
