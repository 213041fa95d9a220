// See runtime/door/submit.hpp.
#include "runtime/door/submit.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "heddle/status.hpp"
#include "jit/system/inside.hpp"
#include "runtime/device/device_state.hpp"
#include "runtime/device/execution.hpp"
#include "runtime/device/merge_slot.hpp"
#include "runtime/device/route.hpp"
#include "runtime/door/host_uses.hpp"
#include "runtime/door/queued.hpp"
#include "runtime/memory/order_watch.hpp"
#include "scheduler/device/ticket_guard.hpp"

namespace heddle::rt {

/// Holds the locks of a task's accesses while the task takes a ticket.
class Door final : public sched::TicketGuard {
 public:
  static Event submit(const DeviceState& device, Work& work, const SubmitOptions& options) {
    Door door(device, work);
    return door.submit(*door.ops_, &work.operation, options);
  }
  static Event ask(const DeviceState& device, Work& work, const SubmitOptions& options) {
    Door door(device, work);
    return door.ask(*door.ops_, &work.operation, options);
  }
  static Event submit(const Counted& launch, std::span<const std::int64_t> statics,
                      const sched::TaskOps& ops, void* from, const SubmitOptions& options) {
    Door door(launch.device, launch.label, launch.accesses);
    door.statics_ = statics;
    const Living* const users[] = {&launch.user};
    door.users_ = users;
    door.launches_ = &launch.launches;
    return door.submit(ops, from, options);
  }

  Status enter(sched::TaskNote& note) noexcept override {
    note_ = &note;
    if (operation_ != nullptr) {  // the rest of an earlier attempt; before the locks
      if (!operation_->again_) operation_->kept_.clear();
      operation_->merged_.reset();
      operation_->fresh_.clear();
    }
    if (condition_ != nullptr && !condition_->hold()) {
      return Status(ErrorCode::failed_precondition, [&] {
        return fmt::format("{}: what it was made with changed meanwhile", user());
      });
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
    if (why.ok()) return why;
    if (merge_ != nullptr) slot().mutex.unlock();
    if (condition_ != nullptr) condition_->release(nullptr);
    return why;
  }

  [[nodiscard]] bool runs_host_code() const noexcept override {
    return operation_ != nullptr && operation_->host_takes_part();
  }

  void leave(const Event* taken) noexcept override {
    std::shared_ptr<Load> before;  // destroyed after the unlocks
    if (taken != nullptr) {
      if (sched::disturbed_since(*device_.timeline, disturbances_)) [[unlikely]]
        accesses_->doubt(device_.timeline->id(), disturbances_, automatic_, statics_, *note_);
      note_use(*taken);
      if (sched::Clocks::on()) [[unlikely]]
        watch(*taken);
      hand_over();
      if (operation_ != nullptr) {
        operation_->accepted();
      } else {
        launches_->begin();
        device_.execution->ledger->claim();
      }
      if (merge_ != nullptr) {
        before = slot().load;
        merge_->settle(slot(), *taken);
      }
    }
    unlock_ledgers();
    if (merge_ != nullptr) slot().mutex.unlock();
    if (condition_ != nullptr) condition_->release(taken);
  }

 private:
  Door(const DeviceState& device, sched::Label label, const Accesses& accesses)
      : device_(device), label_(label), accesses_(&accesses) {}
  Door(const DeviceState& device, Work& work) : Door(device, work.label, work.accesses) {
    work.operation->execution_ = device.execution;
    merge_ = work.merge;
    users_ = work.users;
    after_ = work.after;
    first_values_ = work.first_values;
    accepted_ = work.accepted;
    statics_ = work.statics;
    condition_ = work.condition;
    operation_ = work.operation.get();
    if (device.execution->queue->runs_ahead() && !operation_->host_takes_part())
      ops_ = &Queued::ahead;
  }

  Event ask(const sched::TaskOps& ops, void* from, const SubmitOptions& options) {
    options_ = &options;
    const Sync sync = options.sync.value_or(device_.execution->sync);
    automatic_ = sync == Sync::automatic;
    checks_ = sync == Sync::check;
    if (checks_) device_.execution->order->begin();
    Event event = TicketGuard::submit(*device_.timeline, label_, ops, from, options, *this);
    if (checks_) tell_missing();
    return event;
  }
  Event submit(const sched::TaskOps& ops, void* from, const SubmitOptions& options) {
    require_open(device_);
    if (options.sync && *options.sync > Sync::check) {
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("{}: sync is {} (expected a value of Sync)", user(),
                              static_cast<int>(*options.sync)));
    }
    Event event = ask(ops, from, options);
    while (lent_) {  // the reason of the refusal
      const std::shared_ptr<Loan> loan = std::exchange(lent_, nullptr);
      loan->have_copy(loan, options, user());
      event = ask(ops, from, options);
    }
    if (event.accepted()) return event;
    Status why = event.status();
    if (why.code() == ErrorCode::unavailable) require_open(device_);  // finalised meanwhile
    require_well(device_, user());
    throw Error(std::move(why));
  }

  Status enter_ledgers(std::shared_ptr<const Memory> more, sched::TaskNote& note) {
    Status why;
    for (Ledger* const each : accesses_->ledgers()) {
      each->lock();
      if (Status torn = whole(*each); !torn.ok()) why = std::move(torn);
    }
    try {
      if (why.ok()) why = look_at_buffers(std::move(more), note);
    } catch (...) {
      unlock_ledgers();
      throw;
    }
    if (!why.ok()) unlock_ledgers();
    return why;
  }

  Status look_at_buffers(std::shared_ptr<const Memory> more, sched::TaskNote& note) {
    refuse_finalised(users_);
    for (const sched::Awaited& each : after_) {
      if (!ended_well(each.event)) note.come_after(each.event, each.heeded);
    }
    disturbances_ = sched::disturbances(*device_.timeline);
    const std::vector<Accesses::Touch>& touches = accesses_->touches();
    if (operation_ != nullptr) operation_->kept_.resize(touches.size());
    std::size_t kept = 0;
    for (const Accesses::Touch& each : touches) {
      if (each.buffer != nullptr) {
        if (!each.buffer->memory) return absent(each.named, user());
        if (is_lent(each)) return Status(ErrorCode::internal, "a merge buffer borrows it");
        if (operation_ != nullptr) keep(operation_->kept_[kept++], each.buffer->memory);
      } else if (each.use != Use::read) {
        if (Status why = host_writable(*each.host, each.named); !why.ok()) return why;
      }
      const auto broken = each.hazards->order(next(each), each.among, note);
      if (broken) return not_written(each.named, user(), *broken);
      if (each.named.taker != nullptr) {
        each.buffer->prepare_hand_over(
            each.named.taker_text != nullptr
                ? std::string_view(*each.named.taker_text)
                : fmt::format("tensor '{}'", each.named.taker_tensor->label()),
            site());
      }
    }
    if (operation_ != nullptr) operation_->merged_ = std::move(more);
    alone_ = options_->contain || !note.after.empty();  // a predecessor may be contained
    return {};
  }

  void hand_over() noexcept {
    for (const Accesses::Touch& each : accesses_->touches()) {
      if (each.named.taker != nullptr) each.buffer->hand_over(*each.named.taker, site());
    }
  }

  [[nodiscard]] std::source_location site() const noexcept {
    return options_->site.value_or(std::source_location());
  }

  /// A reference kept for an earlier task is the same: a buffer has one memory in its life.
  static void keep(std::shared_ptr<const Memory>& kept,
                   const std::shared_ptr<const Memory>& memory) noexcept {
    if (kept != memory) kept = memory;
  }

  /// Collects the fresh buffers and the queues for their zeros. Called before the ledgers are
  /// locked, because queue_for() may open a queue.
  void find_fresh() {
    auto& fresh = operation_->fresh_;
    for (const Accesses::Touch& each : accesses_->touches()) {
      if (each.buffer == nullptr || !may_be_fresh(*each.buffer)) continue;
      // Work of a queue that runs ahead may fail when no task is left to write zeros.
      const bool whole = ops_ != &Queued::ahead && each.use == Use::overwrite &&
                         each.range.covers({0, each.buffer->bytes});
      const auto at = std::ranges::find(fresh, each.buffer, &Operation::Fresh::buffer);
      if (at == fresh.end()) {
        const Place place{each.buffer->physical, each.buffer->data, each.buffer->device};
        fresh.push_back({place.data, each.buffer->bytes, queue_for(*device_.execution, place),
                         whole, false, each.buffer});
      } else {
        at->overwritten = at->overwritten && whole;
      }
    }
  }

  void note_use(const Event& taken) noexcept {
    if (operation_ != nullptr) {
      // Buffers with an earlier first use by another task are not fresh any more.
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

  /// Records the task's order in Clocks, and reports missing order.
  void watch(const Event& taken) noexcept try {
    for (const sched::Awaited& each : after_) sched::Clocks::comes_after(taken, each.event);
    const auto site = options_->site.value_or(std::source_location());
    const auto by = std::make_shared<const WatchedWork>(
        WatchedWork{label_.c_str(), device_.execution->name, site, options_->lists_events,
                    checks_ ? device_.execution->order : nullptr});
    const auto each_use = [&](const auto& f) {
      for (const Accesses::Touch& each : accesses_->touches()) {
        if (first_values_ && each.buffer != nullptr) continue;
        WatchedUses& uses = each.hazards->watched();
        const Range range = Accesses::next(each, 0, 0, automatic_, statics_).range;
        f(each, uses, WatchedUses::Use{taken, range, each.use != Use::read, false, by});
      }
    };
    each_use([&](const Accesses::Touch& touch, WatchedUses& uses, const WatchedUses::Use& use) {
      uses.follow(use, automatic_ || touch.named.taker != nullptr);
    });
    each_use([&](const Accesses::Touch& touch, WatchedUses& uses, const WatchedUses::Use& use) {
      uses.be(name_of(touch.named));
      if (checks_) uses.look(use, missing_);
      uses.note(use);
    });
  } catch (...) {  // no memory: no report for this task
  }
  void tell_missing() noexcept {
    for (const WatchedUses::Missing& each : missing_) each.tell();
    missing_.clear();
    sched::Clocks::tell_due();
  }

  /// The loan is remembered in lent_, and copied later without the locks.
  [[nodiscard]] bool is_lent(const Accesses::Touch& touch) {
    if (touch.use == Use::read || !(automatic_ || touch.named.taker != nullptr)) return false;
    std::erase_if(touch.buffer->loans, [](const auto& loan) { return !loan->holds(); });
    const auto at = std::ranges::find_if(touch.buffer->loans, [&](const auto& loan) {
      return loan->range.overlaps(next(touch).range);
    });
    if (at == touch.buffer->loans.end()) return false;
    lent_ = *at;
    return true;
  }

  [[nodiscard]] Hazards::Next next(const Accesses::Touch& touch) const noexcept {
    Hazards::Next next =
        Accesses::next(touch, device_.timeline->id(), disturbances_, automatic_, statics_);
    next.accepted = accepted_;
    return next;
  }
  [[nodiscard]] std::string user() const {
    return fmt::format("'{}' on {}", label_.c_str(), device_.execution->name);
  }
  void unlock_ledgers() noexcept {
    for (Ledger* const each : accesses_->ledgers()) each->unlock();
  }
  [[nodiscard]] MergeSlot& slot() const noexcept { return device_.execution->merge; }

  const DeviceState& device_;
  const sched::Label label_;
  const Accesses* accesses_;  // after enter(): includes the merge buffer
  MergeUse* merge_ = nullptr;
  Condition* condition_ = nullptr;
  std::span<const Living* const> users_;
  std::span<const sched::Awaited> after_;
  Operation* operation_ = nullptr;
  // for a counted launch, in place of operation_; keeps the memory alive
  sched::SplitCount<>* launches_ = nullptr;
  const sched::TaskOps* ops_ = &Queued::to_the_end;
  bool first_values_ = false, accepted_ = false;
  Chosen statics_{};
  std::shared_ptr<Loan> lent_;
  bool alone_ = false, automatic_ = true, checks_ = false;
  const SubmitOptions* options_ = nullptr;
  sched::TaskNote* note_ = nullptr;
  std::uint64_t disturbances_ = 0;  // cancel epoch when the accesses were checked
  std::vector<WatchedUses::Missing> missing_;
};

Event submit(const DeviceState& device, Work work, const SubmitOptions& options) {
  return Door::submit(device, work, options);
}

Event ask(const DeviceState& device, Work work, const SubmitOptions& options) {
  return Door::ask(device, work, options);
}

Event submit_counted(const Counted& launch, std::span<const std::int64_t> statics,
                     const sched::TaskOps& ops, void* from, const SubmitOptions& options) {
  return Door::submit(launch, statics, ops, from, options);
}

void refuse_finalised(std::span<const Living* const> users) {
  for (const Living* const each : users) {
    if (each->is_finalised_locked()) each->refuse_finalised();
  }
}

}  // namespace heddle::rt
