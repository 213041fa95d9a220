// The fast path of the door (submit(), the entry to a device's queue): for launches with every
// buffer in place and nothing to wait for. Takes no lock and no memory. Only for the thread to
// which the device's ledger (device lock) is biased.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>

#include "heddle/few.hpp"
#include "runtime/device/device_state.hpp"
#include "runtime/device/execution.hpp"
#include "runtime/door/submit.hpp"
#include "runtime/memory/buffer_state.hpp"
#include "scheduler/device/ticket_guard.hpp"

namespace heddle::rt {

/// The buffer has its memory, and needs no zeros first.
[[nodiscard]] inline bool is_there(const BufferState& buffer) noexcept {
  return buffer.memory != nullptr && !may_be_fresh(buffer);
}

/// The uses of one launch while it takes a ticket. Under the ledger of the device.
class PlainUses {
 public:
  struct OneUse {
    Hazards::Next next;
    Hazards* hazards;
    Hazards::Record* record;  ///< the result of Hazards::plain() for `next`
    const Memory* unkept;     ///< memory to which the task holds no reference, or null
  };
  /// Capacity without allocation.
  static constexpr std::size_t room = 32;

  explicit PlainUses(const DeviceState& device)
      : device_(*device.timeline), disturbances_(sched::disturbances(device_)) {}

  [[nodiscard]] std::uint64_t timeline() const noexcept { return device_.id(); }
  [[nodiscard]] std::uint64_t disturbances() const noexcept { return disturbances_; }
  /// A new use, for the caller to fill.
  [[nodiscard]] OneUse& add() { return uses_.emplace_back(); }
  /// Takes a ticket, records every use as a last use, and calls `accepted` with the event; none if
  /// the queue may be full. Sets `note` if the device's cancel epoch changed meanwhile: then the
  /// task re-validates its inputs before running.
  template <class Accepted>
  [[nodiscard]] sched::PlainTicket take_ticket(std::optional<sched::TaskNote>& note,
                                               const Accepted& accepted) const {
    sched::PlainTicket ticket(device_);
    if (!ticket) [[unlikely]]
      return ticket;
    if (sched::disturbed_since(device_, disturbances_)) [[unlikely]] {
      note.emplace();
      for (const OneUse& use : uses_) doubt(*use.hazards, use.next, *note);
    }
    for (const OneUse& use : uses_) {
      use.hazards->note_plainly(use.record, ticket.event(), use.next, false);
      if (use.unkept != nullptr) use.unkept->be_bare();
    }
    accepted(ticket.event());
    return ticket;
  }

 private:
  const sched::TaskDevice& device_;
  const std::uint64_t disturbances_;
  executors::Few<OneUse, room> uses_;
};

/// Submits `launch` by the fast path. false: nothing happened, and the caller has to use the
/// general path. Members of Launch (look() and accepted() are called under the ledger of the
/// device):
///     bool look(PlainUses&)           adds every use; false: an input is missing or busy
///     void accepted(Event)            the launch has this ticket, and its uses are recorded
///     const sched::TaskOps& ops()     the task's operations for the queue
///     sched::Label put(void*, Event)  builds the task in its slot, without the ledger; returns
///                                     the label
template <class Launch>
[[nodiscard]] bool submit_plainly(const DeviceState& device, Launch& launch) {
  Ledger& ledger = *device.execution->ledger;
  if (!ledger.try_lock_alone()) return false;
  std::optional<sched::TaskNote> note;
  const sched::PlainTicket ticket = [&] {
    const std::lock_guard lock(ledger, std::adopt_lock);
    PlainUses uses(device);
    return launch.look(uses)
               ? uses.take_ticket(note, [&](const Event& event) { launch.accepted(event); })
               : sched::PlainTicket();
  }();
  if (!ticket) return false;
  const sched::TaskOps& ops = launch.ops();
  const sched::Label label = launch.put(ticket.place(), ticket.event());
  if (note) [[unlikely]] {
    ticket.publish(label, ops, *note);
  } else {
    ticket.publish(label, ops);
  }
  return true;
}

}  // namespace heddle::rt
