// See submit.hpp.
#include "runtime/submit.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "heddle/status.hpp"
#include "jit/system/inside.hpp"
#include "runtime/context_state.hpp"
#include "runtime/device_state.hpp"
#include "runtime/execution.hpp"
#include "runtime/host_uses.hpp"
#include "runtime/merge_slot.hpp"
#include "runtime/transfer.hpp"
#include "scheduler/device/ticket_guard.hpp"

namespace heddle::rt {
namespace {

BufferState& state_of(const Access& access) noexcept { return *Inside::of(access.view->buffer()); }

bool may_be_fresh(const BufferState& buffer) noexcept {
  // relaxed: it is looked at again with the ledger locked.
  return buffer.is_fresh.load(std::memory_order_relaxed);
}

/// For messages.
std::string text_of(const Access& access) {
  if (access.view == nullptr) {
    return fmt::format("the host storage of tensor '{}' {}", access.tensor->label(),
                       access.tensor->type().to_string());
  }
  const std::string type = access.view->type().to_string();
  return access.tensor != nullptr
             ? fmt::format("tensor '{}' {}", access.tensor->label(), type)
             : fmt::format("a buffer {} of {}", type, *state_of(access).device);
}

/// Under the lock.
Status donated(const Access& access, std::string_view user) {
  const std::source_location& at = state_of(access).taken_at;
  return Status(ErrorCode::failed_precondition,
                fmt::format("{} uses {}{}, which was donated: taken in '{}' ({}:{}); use the "
                            "buffer that donate() gave there",
                            user, access.tensor != nullptr ? "the memory of " : "", text_of(access),
                            at.function_name(), at.file_name(), at.line()));
}

}  // namespace

Status not_written(const Access& access, std::string_view user, const Event& write) {
  return Status(ErrorCode::failed_precondition,
                fmt::format("{} reads {}, which was not written: what should have done so ended "
                            "badly; write all of it anew first{}",
                            user, text_of(access),
                            access.view == nullptr ? ", and if the host does, say so with "
                                                     "HostArray::set_written()"
                                                   : ""),
                write.status());  // which the caller is told
}

void Accesses::add(Access access) {
  list_.push_back(access);
  BufferState& buffer = state_of(access);
  const std::size_t begin = access.view->offset();
  const Range range{begin, begin + access.view->num_bytes()};
  touch({&buffer.hazards(), &buffer, nullptr, range, access.use, access}, *buffer.ledger);
}

void Accesses::add(HostUses& host, std::size_t bytes, Use use, const Tensor& tensor) {
  touch({&host.hazards, nullptr, &host, {0, bytes}, use, {nullptr, use, &tensor}}, host.ledger);
}

void Accesses::touch(const Touch& touch, Ledger& ledger) {
  const auto same = [&](const Touch& other) {
    return other.hazards == touch.hazards && other.range == touch.range;
  };
  if (const auto at = std::ranges::find_if(touches_, same); at == touches_.end()) {
    touches_.push_back(touch);
    const auto of_it = [&](const Touch& other) { return other.hazards == touch.hazards; };
    const auto among = static_cast<std::size_t>(std::ranges::count_if(touches_, of_it));
    for (Touch& each : touches_) {
      if (of_it(each)) each.among = among;
    }
    add(ledger);
  } else if (at->use != touch.use) {
    at->use = Use::change;
  }
}

void Accesses::add(Ledger& ledger) {
  const auto at = std::ranges::lower_bound(ledgers_, &ledger, std::less<>());
  if (at == ledgers_.end() || *at != &ledger) ledgers_.insert(at, &ledger);
}

void Accesses::clear() noexcept {
  list_.clear();
  touches_.clear();
  ledgers_.clear();
}

bool Accesses::writes(const BufferView& view) const noexcept {
  return std::ranges::any_of(list_, [&](const Access& access) {
    return access.use != Use::read && overlap(*access.view, view);
  });
}

/// Holds what a task touches while it takes its ticket.
class Door final : public sched::TicketGuard {
 public:
  static Event submit(const DeviceState& device, Work& work, const SubmitOptions& options) {
    work.operation->execution_ = device.execution;
    const bool runs_ahead =
        device.execution->queue->runs_ahead() && !work.operation->host_takes_part();
    Door door(device, work.label, work.accesses);
    door.merge_ = work.merge;
    door.context_ = work.context;
    door.linked_ = work.linked;
    door.first_values_ = work.first_values;
    door.operation_ = work.operation.get();
    return door.submit(runs_ahead ? ahead : to_the_end, &work.operation, options);
  }
  static Event submit(const ContextState& context, const Linked& linked, const sched::TaskOps& ops,
                      void* from, const SubmitOptions& options) {
    Door door(*context.device, linked.label, linked.accesses);
    door.context_ = &context;
    door.linked_ = &linked;
    return door.submit(ops, from, options);
  }

  Status enter(sched::TaskNote& note) noexcept override {
    if (operation_ != nullptr) {  // what an earlier try left; before the locks
      operation_->kept_.clear();
      operation_->fresh_.clear();
    }
    if (merge_ != nullptr) slot().mutex.lock();
    Status why;
    try {
      std::shared_ptr<const Memory> more;
      if (merge_ != nullptr) {
        MergeUse::Needs needs = merge_->resolve(device_);
        accesses_ = &needs.accesses;
        more = std::move(needs.memory);
      }
      if (operation_ != nullptr && !first_values_) find_fresh();
      why = enter_ledgers(std::move(more), note);
    } catch (const Error& e) {
      why = e.status();
    } catch (...) {
      why = Status(ErrorCode::exhausted, [&] {
        return fmt::format("no memory to submit '{}' on {}", label_.c_str(),
                           device_.execution->name);
      });
    }
    if (!why.ok() && merge_ != nullptr) slot().mutex.unlock();
    return why;
  }

  void leave(const Event* taken) noexcept override {
    std::shared_ptr<Load> before;  // goes after the locks
    if (taken != nullptr) {
      note_use(*taken);
      if (linked_ != nullptr) {
        linked_->launches.begin();
        if (operation_ == nullptr) device_.execution->ledger->claim();
      }
      if (merge_ != nullptr) {
        before = slot().load;
        merge_->settle(slot(), *taken);
      }
    }
    unlock_ledgers();
    if (merge_ != nullptr) slot().mutex.unlock();
  }

 private:
  Door(const DeviceState& device, sched::Label label, const Accesses& accesses)
      : device_(device), label_(label), accesses_(&accesses) {}

  Event submit(const sched::TaskOps& ops, void* from, const SubmitOptions& options) {
    require_open(device_);
    if (options.sync && *options.sync > Sync::manual) {
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("{}: sync is {} (expected a value of Sync)", user(),
                              static_cast<int>(*options.sync)));
    }
    contain_ = options.contain;
    automatic_ = options.sync.value_or(device_.execution->sync) == Sync::automatic;
    Event event = TicketGuard::submit(*device_.timeline, label_, ops, from, options, *this);
    if (event.accepted()) return event;
    Status why = event.status();
    // Somebody finalised it meanwhile.
    if (why.code() == ErrorCode::unavailable) require_open(device_);
    throw Error(std::move(why));
  }

  Status enter_ledgers(std::shared_ptr<const Memory> more, sched::TaskNote& note) {
    for (Ledger* const each : accesses_->ledgers()) each->lock();
    Status why;
    try {
      why = look_at_buffers(std::move(more), note);
    } catch (...) {
      unlock_ledgers();
      throw;
    }
    if (!why.ok()) unlock_ledgers();
    return why;
  }

  Status look_at_buffers(std::shared_ptr<const Memory> more, sched::TaskNote& note) {
    if (context_ != nullptr && context_->locked_routine() == nullptr) refuse_finalised(*context_);
    disturbances_ = sched::disturbances(*device_.timeline);
    const std::vector<Accesses::Touch>& touches = accesses_->touches();
    if (operation_ != nullptr) operation_->kept_.reserve(touches.size() + 1);
    for (const Accesses::Touch& each : touches) {
      if (each.buffer != nullptr) {
        if (!each.buffer->memory) return donated(each.named, user());
        if (operation_ != nullptr) operation_->kept_.push_back(each.buffer->memory);
      } else if (each.use != Use::read) {
        if (Status why = host_writable(*each.host, *each.named.tensor); !why.ok()) return why;
      }
      const auto broken = each.hazards->order(next(each), each.among, note);
      if (broken) return not_written(each.named, user(), *broken);
    }
    if (more) operation_->kept_.push_back(std::move(more));
    alone_ = contain_ || !note.after.empty();  // what it comes after may have been contained
    return {};
  }

  /// What zeros take is had before the ledgers are locked, as it may be a queue.
  void find_fresh() {
    auto& fresh = operation_->fresh_;
    for (const Accesses::Touch& each : accesses_->touches()) {
      if (each.buffer == nullptr || !may_be_fresh(*each.buffer)) continue;
      const bool whole = each.use == Use::overwrite && each.range.covers({0, each.buffer->bytes});
      const auto at = std::ranges::find(fresh, each.buffer, &Operation::Fresh::buffer);
      if (at == fresh.end()) {
        const Place place{each.buffer->physical, each.buffer->data, each.buffer->device};
        fresh.push_back({place.data, each.buffer->bytes, queue_for(*device_.execution, place),
                         whole, each.buffer});
      } else {
        at->overwritten = at->overwritten && whole;
      }
    }
  }

  void note_use(const Event& taken) noexcept {
    if (operation_ != nullptr) {
      // Those of others, which came first, are not fresh any more.
      std::erase_if(operation_->fresh_, [](const Operation::Fresh& each) {
        // relaxed: the ledger is locked.
        return !each.buffer->is_fresh.exchange(false, std::memory_order_relaxed);
      });
      for (const Operation::Fresh& each : operation_->fresh_)
        each.buffer->hazards().begin_with(taken, {0, each.buffer->bytes});
    }
    for (const Accesses::Touch& each : accesses_->touches()) {
      if (first_values_ && each.buffer != nullptr) {
        each.hazards->begin_with(taken, each.range);
      } else {
        each.hazards->note(taken, next(each), alone_);
      }
    }
  }

  [[nodiscard]] Hazards::Next next(const Accesses::Touch& touch) const noexcept {
    return {device_.timeline->id(), disturbances_, touch.range, touch.use, automatic_};
  }
  [[nodiscard]] std::string user() const {
    return fmt::format("'{}' on {}", label_.c_str(), device_.execution->name);
  }
  void unlock_ledgers() noexcept {
    for (Ledger* const each : accesses_->ledgers()) each->unlock();
  }
  [[nodiscard]] MergeSlot& slot() const noexcept { return device_.execution->merge; }

  // How the queue handles a std::unique_ptr<Operation>.

  static Operation& of(void* callable) noexcept {
    return **static_cast<std::unique_ptr<Operation>*>(callable);
  }
  static void construct(void* to, void* from) noexcept {
    ::new (to)
        std::unique_ptr<Operation>(std::move(*static_cast<std::unique_ptr<Operation>*>(from)));
  }
  static void destroy(void* callable) noexcept {
    Operation& operation = *static_cast<std::unique_ptr<Operation>*>(callable)->release();
    operation.kept_.clear();
    operation.fresh_.clear();
    operation.retire(std::move(operation.execution_));
  }
  static void pass_over(void* callable) noexcept {
    for (const Operation::Fresh& each : of(callable).fresh_)
      log_missing(*of(callable).execution_, zero(of(callable), each));
    of(callable).pass_over(*of(callable).execution_);
  }
  static Status zero(const Operation& operation, const Operation::Fresh& fresh) noexcept {
    const auto& own = operation.execution_->queue;
    return Move{Route::fill, fresh.data, nullptr, fresh.bytes, own, {}, fresh.queue}.run();
  }
  static Status run_after_zeros(Operation& operation) {
    for (const Operation::Fresh& each : operation.fresh_) {
      if (each.overwritten) continue;
      Status status = zero(operation, each);
      // The host's code would look at them at once.
      if (status.ok() && operation.host_takes_part())
        status = operation.execution_->queue->settle();
      if (!status.ok()) return status;
    }
    return operation.run(*operation.execution_);
  }
  /// It does not overwrite that after all; what it did of it is gone, as if it had not begun.
  static void zero_overwritten(const Operation& operation) noexcept {
    for (const Operation::Fresh& each : operation.fresh_) {
      if (each.overwritten)
        static_cast<void>(zero(operation, each));  // how it fails is told already
    }
  }
  static Status begin(Operation& operation) {
    Status status;
    try {
      status = run_after_zeros(operation);
    } catch (...) {
      zero_overwritten(operation);
      throw;
    }
    if (!status.ok()) zero_overwritten(operation);
    return status;
  }
  static bool run(void* callable, Status& failure) {
    failure = begin(of(callable));
    if (failure.ok()) destroy(callable);
    return failure.ok();
  }
  /// It ends once what it asked for has ended, however this goes.
  static bool issue(void* callable, Status& failure) {
    sched::Completion end = completion_of_running_task();
    Stream& queue = *of(callable).execution_->queue;
    try {
      failure = begin(of(callable));
    } catch (...) {
      queue.end(std::move(end));
      throw;
    }
    queue.end(std::move(end));
    return failure.ok();
  }
  static Status finish(void* callable, Status reported) noexcept {
    return of(callable).ended(*of(callable).execution_, std::move(reported));
  }
  static constexpr sched::TaskOps to_the_end{&construct, &run, &destroy, nullptr, &pass_over};
  static constexpr sched::TaskOps ahead{&construct, &issue, &destroy, &finish, &pass_over};

  const DeviceState& device_;
  const sched::Label label_;
  const Accesses* accesses_;  // from enter() on with what is merged
  MergeUse* merge_ = nullptr;
  const ContextState* context_ = nullptr;
  const Linked* linked_ = nullptr;
  Operation* operation_ = nullptr;  // null: only that keeps memory
  bool first_values_ = false;
  bool contain_ = false, alone_ = false, automatic_ = true;
  std::uint64_t disturbances_ = 0;  // when it was looked at
};

Event submit(const DeviceState& device, Work work, const SubmitOptions& options) {
  return Door::submit(device, work, options);
}

Event submit_counted(const ContextState& context, const Linked& linked, const sched::TaskOps& ops,
                     void* from, const SubmitOptions& options) {
  return Door::submit(context, linked, ops, from, options);
}

bool uses_fresh(const Accesses& accesses) noexcept {
  return std::ranges::any_of(
      accesses.touches(), [](const Accesses::Touch& each) { return may_be_fresh(*each.buffer); });
}

void require_live(const Access& access, std::string_view user) {
  const std::lock_guard lock(*state_of(access).ledger);
  if (!state_of(access).memory) throw Error(donated(access, user));
}

}  // namespace heddle::rt
