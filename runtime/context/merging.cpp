// The calls that load merge buffers, and merge.
#include <fmt/format.h>

#include "jit/system/inside.hpp"
#include "runtime/context/copies.hpp"
#include "runtime/context/merge.hpp"
#include "runtime/device/device_state.hpp"
#include "runtime/device/execution.hpp"
#include "scheduler/observe/log.hpp"

namespace heddle {
namespace {

Transfer load(const std::shared_ptr<const rt::DeviceState>& device, const rt::MergeSource& source,
              const rt::Linked* consumer, const TransferOptions& options,
              const std::source_location& where) {
  const bool borrow = source.mode == MergeMode::stream &&
                      rt::may_borrow(*device->execution, *source.view, consumer);
  sched::log_made(LogLevel::debug, [&] {
    return fmt::format("merge '{}' into {} ({})", source.tensor->label(), device->execution->name,
                       borrow ? "streamed" : "copied");
  });
  Event event = rt::submit_load(device, source, borrow, rt::submit_options(options, where));
  return {borrow ? TransferOutcome::streamed : TransferOutcome::copied, std::move(event), {}};
}

}  // namespace

Transfer load_merge(const Device& device, const Tensor& tensor, const Context& source,
                    MergeMode mode, const TransferOptions& options, std::source_location where) {
  const auto from = rt::require_source(tensor, source, "merge");
  return load(Inside::of(device), {&tensor, from.get(), mode}, nullptr, options, where);
}

Transfer load_merge(const Routine& consumer, const Context& source, MergeMode mode,
                    const TransferOptions& options, std::source_location where) {
  const Tensor expected = rt::require_consumer(consumer, mode);
  const auto linked = Inside::of(consumer)->context->routine();
  if (!linked) Inside::of(consumer)->context->refuse_finalised();
  const auto from = rt::require_source(expected, source, "merge");
  return load(Inside::of(consumer)->context->device, {&expected, from.get(), mode}, linked.get(),
              options, where);
}

Event merge(const Routine& consumer, const Context& source, MergeMode mode, BindingsView bindings,
            const TransferOptions& options, std::source_location where) {
  const Tensor expected = rt::require_consumer(consumer, mode);
  const auto from = rt::require_source(expected, source, "merge");
  const rt::MergeSource brought{&expected, from.get(), mode};
  ScheduleOptions launch;
  launch.after = options.after;
  launch.sync = options.sync;
  launch.full = options.full;
  launch.deadline = options.deadline;
  return rt::schedule(*Inside::of(consumer), rt::Statics(bindings), launch, &brought, where);
}

}  // namespace heddle
