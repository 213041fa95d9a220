// See runtime/context/merge.hpp.
#include "runtime/context/merge.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <list>

#include "heddle/status.hpp"
#include "jit/system/inside.hpp"
#include "runtime/context/copies.hpp"
#include "runtime/device/allocation.hpp"
#include "runtime/device/backend_state.hpp"
#include "runtime/device/device_state.hpp"
#include "runtime/device/execution.hpp"
#include "runtime/device/merge_slot.hpp"
#include "runtime/device/route.hpp"
#include "runtime/launch/merge_read.hpp"
#include "runtime/memory/buffer_state.hpp"
#include "scheduler/device/timeline.hpp"
#include "scheduler/observe/log.hpp"

namespace heddle::rt {
namespace {

/// The slot's own memory, grown to at least `bytes`; tasks that use the smaller memory keep it
/// alive. The slot must be locked.
const std::shared_ptr<const Memory>& own_memory(const DeviceState& device, std::size_t bytes,
                                                const Tensor& tensor) {
  std::shared_ptr<const Memory>& memory = device.execution->merge.own;
  if (memory && memory->bytes >= bytes) return memory;
  if (memory.use_count() == 1) memory.reset();  // frees the small memory first
  memory = allocate_memory(*device.execution, bytes,
                           "the merge buffer for tensor '" + tensor.label() + "'");
  return memory;
}

/// The copy into the slot's own memory, in a task of the device.
Move move_of(const DeviceState& device, const BufferView& source, const Memory& own,
             const Tensor& tensor) {
  Execution& execution = *device.execution;
  return plan_move(execution, place_of(source),
                   {execution.physical, static_cast<std::byte*>(own.data), execution.shared_name},
                   source.num_bytes(), "merge of", &tensor);
}

/// A load, and the copy into its memory.
struct Loading {
  std::shared_ptr<Load> load;
  std::shared_ptr<Move> move;  ///< null: the load borrows the source, without a copy
};

class Loads final : public MergeUse {
 public:
  Loads(const Accesses& accesses, const BufferView& source, Loading loading)
      : accesses_(accesses), source_(source), loading_(std::move(loading)) {
    if (loading_.load->loan) loan_.push_back(loading_.load->loan);
  }

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
    slot.hold(loading_.load);
    if (loan_.empty()) return;
    auto& loans = Inside::of(source_.buffer())->loans;
    std::erase_if(loans, [](const auto& loan) { return !loan->holds(); });
    loans.splice(loans.end(), loan_);
  }

 private:
  const Accesses& accesses_;
  const BufferView& source_;
  const Loading loading_;
  std::list<std::shared_ptr<Loan>> loan_;  // made in advance, as settle() must not allocate
};

/// Replaces the borrowed content of the merge buffer by a copy.
class Copies final : public MergeUse {
 public:
  explicit Copies(std::shared_ptr<Loan> loan) : loan_(std::move(loan)) {}

  Needs resolve(const DeviceState& device) override {
    MergeSlot& slot = device.execution->merge;
    if (slot.load && ended_badly(slot.load->event)) slot.hold(nullptr);
    if (!slot.load || slot.load->loan != loan_)
      throw Error(ErrorCode::failed_precondition, "the merge buffer holds it no more");
    auto& [before, after, move] = *copy_;
    before = slot.load;
    const BufferView& source = *before->borrowed;
    accesses_.clear();
    accesses_.add({&source, Use::read, &before->tensor});
    after = std::make_shared<Load>(Load{before->tensor, before->mode, std::nullopt});
    after->before = before->event;
    after->memory = own_memory(device, source.num_bytes(), after->tensor);
    move = move_of(device, source, *after->memory, after->tensor);
    after->data = move.to;
    return {accesses_, after->memory};
  }
  void settle(MergeSlot& slot, const Event& taken) noexcept override {
    copy_->after->event = taken;
    slot.hold(copy_->after);
  }
  /// The task that copies.
  [[nodiscard]] std::unique_ptr<Operation> copying() const {
    const auto run = [copy = copy_](Execution& execution) -> Status {
      if (!copy->before->filled) return {};  // the consumers report the failed load
      if (Status status = copy->move.run(); !status.ok()) return status;
      Execution::count(execution.merges_copied);
      copy->after->filled = true;
      return {};
    };
    return operation(run);
  }

 private:
  struct Copy {
    std::shared_ptr<Load> before, after;
    Move move;
  };

  const std::shared_ptr<Loan> loan_;
  const std::shared_ptr<Copy> copy_ = std::make_shared<Copy>();
  Accesses accesses_;
};

/// Prepares a launch that reads the view in place or in a copy. Returns the memory of the copy, or
/// null. The slot must be locked.
std::shared_ptr<const Memory> read_view(const DeviceState& device, const BufferView& view,
                                        const Tensor& tensor, bool in_place, MergeRead& read) {
  read.accesses.add({&view, Use::read, &tensor});
  const std::size_t bytes = view.num_bytes();
  if (in_place) {
    read.buffer = {place_of(view).data, bytes};
    return nullptr;
  }
  auto memory = own_memory(device, bytes, tensor);
  read.move = move_of(device, view, *memory, tensor);
  read.buffer = {memory->data, bytes};
  return memory;
}

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
  /// A merge() leaves the slot empty: the tensor that merge() brings is for this consumer alone.
  void settle(MergeSlot& slot, const Event& /*taken*/) noexcept override {
    if (source_ != nullptr) slot.hold(nullptr);
  }

 private:
  [[nodiscard]] const Tensor& expected() const {
    return Inside::of(consumer_.code)->tensors.back();
  }

  /// The content of the slot. Throws where the code expects other content (O32).
  const Load& find(const DeviceState& device) {
    MergeSlot& slot = device.execution->merge;
    const std::shared_ptr<Load>& load = slot.load;
    if (load && ended_badly(load->event)) slot.hold(nullptr);
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

  /// The launch reads `view`, in place or in a copy.
  void use(const DeviceState& device, const BufferView& view, const Tensor& tensor, bool in_place) {
    memory_ = read_view(device, view, tensor, in_place, read_);
  }

  const Linked& consumer_;
  MergeRead& read_;
  const MergeSource* const source_;
  std::shared_ptr<const Memory> memory_;  // in addition to the memory of the accesses
};

/// Implements Loan::have_copy. Where a copy is impossible, as the borrower takes no tasks or the
/// borrowed bytes were not written, the merge buffer becomes empty, and the write goes on. Throws
/// exhausted, deadline or cancelled where the copy was refused with that code.
void copy_loan(const std::shared_ptr<Loan>& loan, const SubmitOptions& options,
               const std::string& writer) {
  const auto device = loan->borrower.lock();
  if (!device) return;
  throw_if_failed(device->backend->fork_status());
  SubmitOptions mine;
  mine.full = options.full;
  mine.deadline = options.deadline;
  mine.site = options.site;
  Copies copies(loan);
  const Accesses none;
  const Event copied = ask(*device, {"merge copy", copies.copying(), none, &copies}, mine);
  if (copied.accepted()) return;
  // outcome_of() does not mark a failure as seen: the failure must still be reported (S10).
  const Status why = sched::Timeline::outcome_of(copied);
  if (why.code() == ErrorCode::exhausted || why.code() == ErrorCode::deadline ||
      why.code() == ErrorCode::cancelled) {
    throw Error(Status(
        why.code(),
        fmt::format("{} writes what the merge buffer of {} borrows, which must have a copy first",
                    writer, device->execution->name),
        why));
  }
  std::shared_ptr<Load> gone;  // destroyed after the unlock
  MergeSlot& slot = device->execution->merge;
  const std::lock_guard lock(slot.mutex);
  if (!slot.load || slot.load->loan != loan) return;
  gone = slot.load;
  slot.hold(nullptr);
}

}  // namespace

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

Tensor require_consumer(const Routine& consumer, MergeMode mode) {
  const auto expected = consumer.merge_tensor();
  if (!expected) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("routine '{}' reads no merge buffer", consumer.name()));
  }
  require_mode(consumer.code(), mode);
  return *expected;
}

std::shared_ptr<const Memory> read_merged(const DeviceState& device, const Linked& consumer,
                                          const MergeSource& source, MergeRead& read) {
  read.accesses = consumer.accesses;
  const bool borrow =
      source.mode == MergeMode::stream && may_borrow(*device.execution, *source.view, &consumer);
  const std::lock_guard lock(device.execution->merge.mutex);
  return read_view(device, *source.view, *source.tensor, borrow, read);
}

Event submit_load(const std::shared_ptr<const DeviceState>& device, const MergeSource& source,
                  bool borrow, const SubmitOptions& options) {
  Loading loading{std::make_shared<Load>(Load{*source.tensor, source.mode, std::nullopt}), nullptr};
  if (borrow) {
    loading.load->borrowed = *source.view;
    loading.load->data = place_of(*source.view).data;
    const std::size_t begin = source.view->offset();
    if (options.sync.value_or(device->execution->sync) == Sync::automatic)
      loading.load->loan = std::make_shared<Loan>(
          device, Range{begin, begin + source.view->num_bytes()}, &copy_loan);
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
    Execution::count(loading.move ? execution.merges_copied : execution.merges_streamed);
    loading.load->filled = true;
    return {};
  };
  return submit(*device, {"merge", operation(run), accesses, &loads}, options);
}

Event submit_consumer(const ContextState& context, const Linked& consumer, MergeRead& read,
                      const MergeSource* source, std::span<const std::int64_t> statics,
                      std::unique_ptr<Operation> launch, const SubmitOptions& options) {
  Consumes consumes(consumer, read, source);
  const Living* const users[] = {&context};
  Work work{consumer.label, std::move(launch), consumer.accesses, &consumes, users};
  work.statics = statics;
  return submit(*context.device, std::move(work), options);
}

}  // namespace heddle::rt

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
