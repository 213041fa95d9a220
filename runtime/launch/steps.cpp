// See runtime/launch/steps.hpp.
#include "runtime/launch/steps.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <variant>

#include "heddle/status.hpp"
#include "jit/system/inside.hpp"
#include "runtime/device/execution.hpp"
#include "runtime/launch/parts.hpp"

namespace heddle::rt {
namespace {

Status stopped(const Execution& execution, const Code& code) {
  return Status(ErrorCode::cancelled, [&] {
    return fmt::format(
        "routine '{}' on {} was told to stop while it ran: what it writes is incomplete",
        code.name(), execution.name);
  });
}

Status what_it_said(const Execution& execution, const Code& code, const heddle_kernel_status& said,
                    Status status) {
  if (said.code == HEDDLE_KERNEL_STOPPED) return stopped(execution, code);
  // A device may ignore the kernel's code; devices that check give less detail.
  return Status(
      ErrorCode::device_failed,
      [&] {
        return fmt::format("the kernel of routine '{}' on {} reported code {}, detail {}",
                           code.name(), execution.name, said.code, said.detail);
      },
      std::move(status));
}

/// Arguments without the status.
heddle_kernel_args arguments_of(std::span<const heddle_kernel_buffer> buffers,
                                std::span<const std::int64_t> statics) {
  heddle_kernel_args args{};
  args.struct_size = sizeof args;
  args.abi = HEDDLE_KERNEL_ABI;
  args.buffers = buffers.data();
  args.num_buffers = static_cast<std::uint32_t>(buffers.size());
  args.statics = statics.data();
  args.num_statics = static_cast<std::uint32_t>(statics.size());
  args.num_parts = 1;
  return args;
}

}  // namespace

bool host_takes_part(const Loaded& loaded, const RunInputs& inputs) {
  return inputs.trace || loaded.calls_host;
}

Status run_single(Execution& execution, const Loaded& loaded, const heddle_kernel_buffer* buffers,
                  std::span<const std::int64_t> statics) {
  const SingleKernel& kernel = *loaded.single;
  heddle_kernel_args args = arguments_of({buffers, loaded.num_buffers}, statics);
  heddle_kernel_status said{};
  args.status = &said;
  Status status;
  if (kernel.parts > 1) {
    launch_in_parts(execution, *kernel.module, kernel.index, args, kernel.parts);
  } else {
    status = execution.queue->queue().launch(*kernel.module, kernel.index, args);
  }
  if (said.code != 0) [[unlikely]]
    status = what_it_said(execution, loaded.code, said, std::move(status));
  return status;
}

Run::Run(Execution& execution, const Loaded& loaded, const Tables& tables, const RunInputs& inputs,
         Room& room)
    : execution_(execution),
      loaded_(loaded),
      tables_(tables),
      inputs_(inputs),
      queue_(execution.queue->queue()),
      ahead_(execution.queue->runs_ahead() && !host_takes_part(loaded, inputs)),
      trace_{&inputs.trace, Inside::of(loaded.code).get(), nullptr},
      room_(room) {
  // Kernels point into `in_flight`.
  if (ahead_ && room_.in_flight.size() < loaded.steps.size())
    room_.in_flight.resize(loaded.steps.size());
}

Status Run::all() {
  Status status;
  for (const LoadedStep& step : loaded_.steps) {
    status = std::visit([&](const auto& what) { return one(what, step); }, step.step);
    if (!status.ok()) break;
  }
  return status;
}

Status Run::ended(Status status) const noexcept {
  for (const Called& called : std::span(room_.in_flight).first(called_)) {
    if (called.said.code != 0)
      return what_it_said(execution_, loaded_.code, called.said, std::move(status));
  }
  return status;
}

/// Called by generated code; no exception may pass through generated code.
void Run::trace_value(void* context, std::uint32_t statement, std::uint32_t entry,
                      std::int64_t offset, double before, double after) {
  auto& trace = *static_cast<Trace*>(context);
  if (trace.thrown) return;
  try {
    const std::string_view label = trace.code->label((*trace.entries)[entry]);
    (*trace.sink)({statement, std::string(label), offset, before, after});
  } catch (...) {
    trace.thrown = std::current_exception();
  }
}

Status Run::one(const jit::KernelStep& kernel, const LoadedStep& step) {
  // A long program may consist of many short kernels without a stop check.
  if (called_ > 0 && this_task::stop_token().stop_requested())
    return stopped(execution_, loaded_.code);
  trace_.entries = &kernel.entries;
  Called& called = next_call();
  heddle_kernel_args args =
      arguments_of({buffers(kernel, step, called), kernel.entries.size()}, statics(kernel, called));
  args.status = &called.said;
  args.trace = inputs_.trace ? &trace_value : nullptr;
  args.trace_context = &trace_;
  if (kernel.looks_at_stop) {  // other kernels end soon, and do not pay for the check
    args.stop = &stop_;
    if (!when_stopped_) when_stopped_.emplace(this_task::stop_token(), Raise{stop_});
  }
  Status status;
  if (kernel.parts > 1 && execution_.width > 1 && !ahead_ && !inputs_.trace) {
    launch_in_parts(execution_, *step.module, kernel.index, args, kernel, tables_.helpers);
  } else {
    status = done(queue_.launch(*step.module, kernel.index, args));
  }
  if (ahead_) return status;
  if (trace_.thrown) std::rethrow_exception(trace_.thrown);
  return called.said.code == 0
             ? status
             : what_it_said(execution_, loaded_.code, called.said, std::move(status));
}

Status Run::one(const jit::CopyStep& copy, const LoadedStep& /*step*/) {
  const heddle_kernel_buffer to = buffer(copy.to), from = buffer(copy.from);
  return done(queue_.copy(to.data, from.data, from.bytes));
}

Status Run::one(const jit::ZeroStep& zero, const LoadedStep& /*step*/) {
  const heddle_kernel_buffer to = buffer(zero.entry);
  return done(queue_.zero(to.data, to.bytes));
}

Status Run::one(const jit::MergeStep& /*merge*/, const LoadedStep& /*step*/) {
  return done(inputs_.merge->prepare(execution_, loaded_.code));
}

Status Run::one(const jit::CallStep& call, const LoadedStep& /*step*/) { return call.call(); }

/// Waits for the step to be done, unless the queue runs ahead.
Status Run::done(Status status) {
  if (ahead_) return status;
  Status settled = execution_.queue->settle();
  return status.ok() ? settled : status;
}

Run::Called& Run::next_call() {
  Called& called = ahead_ ? room_.in_flight[called_] : room_.called;
  ++called_;
  called.merged.clear();
  called.some.clear();
  called.said = {};
  return called;
}

heddle_kernel_buffer Run::buffer(std::uint32_t entry) const {
  return entry == Inside::of(loaded_.code)->signature().merge ? inputs_.merge->buffer
                                                              : tables_.entries()[entry];
}

/// Buffers of the kernel; built in `called` if the code reads the merge buffer.
const heddle_kernel_buffer* Run::buffers(const jit::KernelStep& kernel, const LoadedStep& step,
                                         Called& called) const {
  const auto& merge = Inside::of(loaded_.code)->signature().merge;
  if (!merge) return tables_.of(step);
  for (const std::uint32_t entry : kernel.entries) called.merged.push_back(buffer(entry));
  return called.merged.data();
}

std::span<const std::int64_t> Run::statics(const jit::KernelStep& kernel, Called& called) const {
  if (kernel.statics.size() == inputs_.statics.size()) return inputs_.statics;
  for (const std::uint32_t k : kernel.statics) called.some.push_back(inputs_.statics[k]);
  return called.some;
}

}  // namespace heddle::rt
