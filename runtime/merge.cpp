// See merge.hpp.
#include "runtime/merge.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "heddle/status.hpp"
#include "jit/system/inside.hpp"
#include "runtime/buffer_state.hpp"
#include "runtime/device_state.hpp"
#include "runtime/execution.hpp"
#include "runtime/merge_slot.hpp"
#include "scheduler/observe/log.hpp"

namespace heddle::rt {
namespace {

/// The slot's own memory, of at least that size; tasks that use a smaller one keep it. While the
/// slot is locked.
const std::shared_ptr<const Memory>& own_memory(const DeviceState& device, std::size_t bytes,
                                                const Tensor& tensor) {
  std::shared_ptr<const Memory>& memory = device.execution->merge.own;
  if (memory && memory->bytes >= bytes) return memory;
  if (memory.use_count() == 1) memory.reset();  // before the larger one is taken
  memory = allocate_memory(*device.execution, bytes,
                           "the merge buffer for tensor '" + tensor.label() + "'");
  return memory;
}

/// Into the slot's own memory, in a task of the device.
Move move_of(const DeviceState& device, const BufferView& source, const Memory& own,
             const Tensor& tensor) {
  Execution& execution = *device.execution;
  return plan_move(execution, place_of(source),
                   {execution.physical, static_cast<std::byte*>(own.data), execution.shared_name},
                   source.num_bytes(), "merge of", &tensor);
}

void count(std::atomic<std::uint64_t>& counter) noexcept {
  // relaxed: a number for people.
  counter.fetch_add(1, std::memory_order_relaxed);
}

/// A load, and what fills it.
struct Loading {
  std::shared_ptr<Load> load;
  std::shared_ptr<Move> move;  ///< null: borrowed
};

class Loads final : public MergeUse {
 public:
  Loads(const Accesses& accesses, const BufferView& source, Loading loading)
      : accesses_(accesses), source_(source), loading_(std::move(loading)) {}

  Needs resolve(const DeviceState& device) override {
    Load& load = *loading_.load;
    if (loading_.move) {
      load.memory = own_memory(device, source_.num_bytes(), load.tensor);
      *loading_.move = move_of(device, source_, *load.memory, load.tensor);
      load.data = loading_.move->to;
    }
    return {accesses_, load.memory};
  }
  void settle(MergeSlot& slot, const Event& taken) noexcept override {
    loading_.load->event = taken;
    slot.load = loading_.load;
  }

 private:
  const Accesses& accesses_;
  const BufferView& source_;
  const Loading loading_;
};

class Consumes final : public MergeUse {
 public:
  Consumes(const Linked& consumer, MergeRead& read, const MergeSource* source)
      : consumer_(consumer), read_(read), source_(source) {}

  Needs resolve(const DeviceState& device) override {
    memory_.reset();
    read_.move.reset();
    read_.accesses = consumer_.accesses;
    if (source_ != nullptr) {
      const bool borrow = source_->mode == MergeMode::stream &&
                          may_borrow(*device.execution, *source_->view, &consumer_);
      use(device, *source_->view, *source_->tensor, borrow);
    } else {
      const Load& load = find(device);
      if (load.borrowed) {
        use(device, *load.borrowed, load.tensor,
            may_borrow(*device.execution, *load.borrowed, &consumer_));
      } else {
        memory_ = load.memory;
        read_.buffer = {load.data, static_cast<std::uint64_t>(load.tensor.num_bytes())};
      }
    }
    return {read_.accesses, memory_};
  }
  /// What merge() brings goes after its consumer.
  void settle(MergeSlot& slot, const Event& /*taken*/) noexcept override {
    if (source_ != nullptr) slot.load.reset();
  }

 private:
  [[nodiscard]] const Tensor& expected() const {
    return Inside::of(consumer_.code)->tensors.back();
  }

  /// What the slot holds, which must be what the code expects (O32).
  const Load& find(const DeviceState& device) {
    std::shared_ptr<Load>& load = device.execution->merge.load;
    if (load && load->event.done() && !ended_well(load->event)) load.reset();
    const Code& code = consumer_.code;
    if (!load || !(load->tensor == expected())) {
      throw Error(ErrorCode::failed_precondition,
                  fmt::format("routine '{}' merges tensor '{}', but the merge buffer of {} "
                              "holds {}; load it before with merge() or load_merge()",
                              code.name(), expected().label(), device.execution->name,
                              load ? "'" + load->tensor.label() + "'" : "none"));
    }
    if (const auto only = Inside::of(code)->options.merge_mode; only && *only != load->mode) {
      throw Error(ErrorCode::failed_precondition,
                  fmt::format("routine '{}' was compiled for merges by {} only, but tensor "
                              "'{}' was loaded by {}",
                              code.name(), name(*only), load->tensor.label(), name(load->mode)));
    }
    read_.load = load;
    return *load;
  }

  /// The launch reads `view`, in place or in a copy of its own.
  void use(const DeviceState& device, const BufferView& view, const Tensor& tensor, bool in_place) {
    read_.accesses.add({&view, Use::read, &tensor});
    const std::size_t bytes = view.num_bytes();
    if (in_place) {
      read_.buffer = {place_of(view).data, bytes};
    } else {
      memory_ = own_memory(device, bytes, tensor);
      read_.move = move_of(device, view, *memory_, tensor);
      read_.buffer = {memory_->data, bytes};
    }
  }

  const Linked& consumer_;
  MergeRead& read_;
  const MergeSource* const source_;
  std::shared_ptr<const Memory> memory_;  // beside theirs
};

}  // namespace

void MergeSlot::clear() noexcept {
  std::shared_ptr<Load> load_before;  // these go after the lock
  std::shared_ptr<const Memory> own_before;
  const std::lock_guard lock(mutex);
  load_before.swap(load);
  own_before.swap(own);
}

bool may_borrow(const Execution& execution, const BufferView& source, const Linked* consumer) {
  if (!reaches(execution, *Inside::of(source.buffer()))) return false;
  return consumer == nullptr || !consumer->accesses.writes(source);
}

void require_mode(const Code& consumer, MergeMode mode) {
  const auto only = Inside::of(consumer)->options.merge_mode;
  if (!only || *only == mode) return;
  throw Error(
      ErrorCode::invalid_argument,
      fmt::format("routine '{}' was compiled for merges by {} only, not by {}; load it by {}",
                  consumer.name(), name(*only), name(mode), name(*only)));
}

void MergeRead::clear() noexcept {
  load.reset();
  move.reset();
  accesses.clear();
}

Status MergeRead::prepare(Execution& execution, const Linked& linked) const {
  if (load && !load->filled) {
    return Status(ErrorCode::failed_precondition,
                  fmt::format("routine '{}' merges tensor '{}', but the task that loads it into "
                              "the merge buffer of {} did not run; load it again",
                              linked.code.name(), load->tensor.label(), execution.name));
  }
  if (move) {
    if (Status status = move->run(); !status.ok()) return status;
    count(execution.merges_copied);
  } else if (!load) {
    count(execution.merges_streamed);
  }
  return {};
}

Event submit_load(const DeviceState& device, const MergeSource& source, bool borrow,
                  const SubmitOptions& options) {
  Loading loading{std::make_shared<Load>(Load{*source.tensor, source.mode, std::nullopt}), nullptr};
  if (borrow) {
    loading.load->borrowed = *source.view;
    loading.load->data = place_of(*source.view).data;
  } else {
    loading.move = std::make_shared<Move>();
  }
  Accesses accesses;
  accesses.add({source.view, Use::read, source.tensor});
  Loads loads(accesses, *source.view, loading);
  const auto run = [loading](Execution& execution) -> Status {
    if (loading.move) {
      if (Status status = loading.move->run(); !status.ok()) return status;
    }
    count(loading.move ? execution.merges_copied : execution.merges_streamed);
    loading.load->filled = true;
    return {};
  };
  return submit(device, {"merge", operation(run), accesses, &loads}, options);
}

Event submit_consumer(const ContextState& context, const Linked& consumer, MergeRead& read,
                      const MergeSource* source, std::unique_ptr<Operation> launch,
                      const SubmitOptions& options) {
  Consumes consumes(consumer, read, source);
  return submit(
      *context.device,
      {consumer.label, std::move(launch), consumer.accesses, &consumes, &context, &consumer},
      options);
}

}  // namespace heddle::rt

namespace heddle {
namespace {

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

Transfer load_merge(const Device& device, const Tensor& tensor, const Context& source,
                    MergeMode mode, const TransferOptions& options, std::source_location where) {
  const auto from = rt::require_source(tensor, source, "merge");
  return load(*Inside::of(device), {&tensor, from.get(), mode}, nullptr, options, where);
}

Transfer load_merge(const Routine& consumer, const Context& source, MergeMode mode,
                    const TransferOptions& options, std::source_location where) {
  const Tensor expected = require_consumer(consumer, mode);
  const auto linked = Inside::of(consumer)->context->routine();
  if (!linked) rt::refuse_finalised(*Inside::of(consumer)->context);
  const auto from = rt::require_source(expected, source, "merge");
  return load(*Inside::of(consumer)->context->device, {&expected, from.get(), mode}, linked.get(),
              options, where);
}

Event merge(const Routine& consumer, const Context& source, MergeMode mode, BindingsView bindings,
            const TransferOptions& options, std::source_location where) {
  const Tensor expected = require_consumer(consumer, mode);
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
