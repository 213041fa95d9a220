// Moving tensors between devices: copies and merge buffers. Tasks on the destination's timeline.
#include <fmt/format.h>

#include "heddle/observe.hpp"
#include "heddle/status.hpp"
#include "runtime/context_state.hpp"

namespace heddle {
namespace {

const BufferView& require_source(const Tensor& tensor, const Context& source,
                                 std::string_view what) {
  if (const rt::Held* const held = rt::find_held(*source.state(), tensor)) return held->view;
  throw Error(ErrorCode::not_found,
              fmt::format("{} of tensor '{}': the source context '{}' does not hold it", what,
                          tensor.label(), source.label()));
}

sched::SubmitOptions after(const TransferOptions& options) {
  sched::SubmitOptions submit;
  submit.after = options.after;
  return submit;
}

/// Puts `view` into the device's merge buffer: borrowed, or copied into memory of its own that only
/// grows.
struct LoadMerge {
  std::shared_ptr<rt::Execution> execution;
  Tensor tensor;
  BufferView source;
  MergeMode mode;
  bool borrow;

  Status operator()() const {
    rt::MergeSlot& slot = execution->merge;
    slot.holder.reset();  // a failed load leaves an empty slot, not an old one
    slot.view.reset();
    if (borrow) {
      slot.view = source;
      // relaxed: a number for people.
      execution->merges_streamed.fetch_add(1, std::memory_order_relaxed);
    } else {
      const std::size_t bytes = source.num_bytes();
      if (!slot.own || slot.own->bytes < bytes) {
        slot.own.reset();  // before the larger one is taken
        slot.own =
            rt::allocate(*execution, bytes, "the merge buffer for tensor '" + tensor.label() + "'");
      }
      Status status = rt::copy_bytes(*execution->queue, *slot.own, 0, *source.buffer().state(),
                                     source.offset(), bytes);
      if (!status.ok()) return status;
      slot.view.emplace(Buffer(slot.own), tensor.type());
      // relaxed: as above.
      execution->merges_copied.fetch_add(1, std::memory_order_relaxed);
    }
    slot.holder = tensor;
    slot.mode = mode;
    return {};
  }
};

void require_mode(const Routine& consumer, MergeMode mode) {
  const auto only = consumer.code().data().options.merge_mode;
  if (!only || *only == mode) return;
  throw Error(
      ErrorCode::invalid_argument,
      fmt::format("routine '{}' was compiled for merges by {} only, not by {}; load it by {}",
                  consumer.name(), name(*only), name(mode), name(*only)));
}

}  // namespace

Transfer copy(const Tensor& tensor, const Context& source, const Context& destination,
              const TransferOptions& options) {
  const BufferView from = require_source(tensor, source, "copy");
  const rt::Held* const held = rt::find_held(*destination.state(), tensor);
  if (held == nullptr) {
    return {TransferOutcome::nothing_to_do,
            {},
            fmt::format("the destination context '{}' does not hold tensor '{}'",
                        destination.label(), tensor.label())};
  }
  const BufferView to = held->view;
  if (from.buffer().state() == to.buffer().state()) {
    return {TransferOutcome::nothing_to_do, {}, "source and destination share one buffer"};
  }
  rt::require_writable(to);
  const auto& device = destination.state()->device;
  log(LogLevel::debug,
      fmt::format("copy '{}' from {} to {}", tensor.label(),
                  source.state()->device->execution->name, device->execution->name));
  Event event = device->timeline->submit(
      "copy",
      [execution = device->execution, from, to] {
        // relaxed: a number for people.
        execution->copies.fetch_add(1, std::memory_order_relaxed);
        return rt::copy_bytes(*execution->queue, *to.buffer().state(), to.offset(),
                              *from.buffer().state(), from.offset(), to.num_bytes());
      },
      after(options));
  return {TransferOutcome::scheduled, rt::require_accepted(std::move(event)), {}};
}

Transfer load_merge(const Device& device, const Tensor& tensor, const Context& source,
                    MergeMode mode, const TransferOptions& options) {
  const BufferView from = require_source(tensor, source, "merge");
  const auto& execution = device.state()->execution;
  const bool shared = from.buffer().state()->physical->properties().memory_space ==
                      execution->physical->properties().memory_space;
  const bool borrow = mode == MergeMode::stream && shared;
  log(LogLevel::debug, fmt::format("merge '{}' into {} ({})", tensor.label(), execution->name,
                                   borrow ? "streamed" : "copied"));
  Event event =
      device.submit("merge", LoadMerge{execution, tensor, from, mode, borrow}, after(options));
  return {borrow ? TransferOutcome::streamed : TransferOutcome::copied,
          rt::require_accepted(std::move(event)),
          {}};
}

Transfer load_merge(const Routine& consumer, const Context& source, MergeMode mode,
                    const TransferOptions& options) {
  const auto expected = consumer.merge_tensor();
  if (!expected) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("routine '{}' reads no merge buffer", consumer.name()));
  }
  require_mode(consumer, mode);
  return load_merge(consumer.context().device(), *expected, source, mode, options);
}

Event merge(const Routine& consumer, const Context& source, MergeMode mode,
            const Bindings& bindings, const TransferOptions& options) {
  static_cast<void>(load_merge(consumer, source, mode, options));
  return consumer.schedule(bindings);
}

}  // namespace heddle
