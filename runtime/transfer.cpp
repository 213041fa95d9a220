// Moving tensors between devices: copies and merge buffers. Tasks on the destination's timeline.
#include <fmt/format.h>

#include "heddle/status.hpp"
#include "runtime/merge.hpp"
#include "scheduler/observe/log.hpp"

namespace heddle {
namespace {

BufferView require_source(const Tensor& tensor, const Context& source, std::string_view what) {
  if (auto view = rt::find_view(*source.state(), tensor)) return *std::move(view);
  throw Error(ErrorCode::not_found,
              fmt::format("{} of tensor '{}': the source context '{}' does not hold it", what,
                          tensor.label(), source.label()));
}

Transfer load(const rt::DeviceState& device, const rt::MergeSource& source,
              const rt::Linked* consumer, const TransferOptions& options,
              const std::source_location& where) {
  const bool borrow =
      source.mode == MergeMode::stream && rt::may_borrow(*device.execution, *source.view, consumer);
  sched::log_made(LogLevel::debug, [&] {
    return fmt::format("merge '{}' into {} ({})", source.tensor->label(), device.execution->name,
                       borrow ? "streamed" : "copied");
  });
  Event event = rt::submit_load(device, source, borrow, rt::submit_options(options, where));
  return {borrow ? TransferOutcome::streamed : TransferOutcome::copied, std::move(event), {}};
}

/// The tensor that the consumer merges; checks that it does, and by that mode.
Tensor require_consumer(const Routine& consumer, MergeMode mode) {
  const auto expected = consumer.merge_tensor();
  if (!expected) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("routine '{}' reads no merge buffer", consumer.name()));
  }
  rt::require_mode(consumer.code(), mode);
  return *expected;
}

}  // namespace

Transfer copy(const Tensor& tensor, const Context& source, const Context& destination,
              const TransferOptions& options, std::source_location where) {
  const BufferView from = require_source(tensor, source, "copy");
  const auto to = rt::find_view(*destination.state(), tensor);
  const auto& device = destination.state()->device;
  rt::require_open(*device);
  if (!to) {
    return {TransferOutcome::nothing_to_do,
            {},
            fmt::format("the destination context '{}' does not hold tensor '{}'",
                        destination.label(), tensor.label())};
  }
  if (from.buffer().state() == to->buffer().state() && from.offset() == to->offset()) {
    return {TransferOutcome::nothing_to_do, {}, "source and destination share their memory"};
  }
  rt::require_writable(*to);
  sched::log_made(LogLevel::debug, [&] {
    return fmt::format("copy '{}' from {} to {}", tensor.label(),
                       source.state()->device->execution->name, device->execution->name);
  });
  rt::Accesses accesses;
  accesses.add({&*to, rt::Use::overwrite, &tensor});
  accesses.add({&from, rt::Use::read, &tensor});
  Event event = rt::submit(
      *device, "copy", accesses,
      [execution = device->execution,
       copy = rt::Copy{rt::place_of(*to), rt::place_of(from), to->num_bytes(),
                       "copy of tensor '" + tensor.label() + "' " + tensor.type().to_string()}] {
        // relaxed: a number for people.
        execution->copies.fetch_add(1, std::memory_order_relaxed);
        return copy(*execution);
      },
      rt::submit_options(options, where));
  return {TransferOutcome::scheduled, std::move(event), {}};
}

Transfer load_merge(const Device& device, const Tensor& tensor, const Context& source,
                    MergeMode mode, const TransferOptions& options, std::source_location where) {
  const BufferView from = require_source(tensor, source, "merge");
  return load(*device.state(), {&tensor, &from, mode}, nullptr, options, where);
}

Transfer load_merge(const Routine& consumer, const Context& source, MergeMode mode,
                    const TransferOptions& options, std::source_location where) {
  const Tensor expected = require_consumer(consumer, mode);
  const auto linked = consumer.state()->context->routine();
  if (!linked) rt::refuse_finalised(*consumer.state()->context);
  const BufferView from = require_source(expected, source, "merge");
  return load(*consumer.state()->context->device, {&expected, &from, mode}, linked.get(), options,
              where);
}

Event merge(const Routine& consumer, const Context& source, MergeMode mode,
            const Bindings& bindings, const TransferOptions& options, std::source_location where) {
  const Tensor expected = require_consumer(consumer, mode);
  const BufferView from = require_source(expected, source, "merge");
  const rt::MergeSource brought{&expected, &from, mode};
  ScheduleOptions launch;
  launch.after = options.after;
  launch.full = options.full;
  launch.deadline = options.deadline;
  return rt::schedule(*consumer.state(), bindings, launch, &brought, where);
}

}  // namespace heddle
