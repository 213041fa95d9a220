// The fast path of the door: for launches that find all that they use there, and have nothing to
// wait for. It takes no lock and no memory. For the one thread that the ledger of the device is
// biased to.
#pragma once

#include <boost/container/small_vector.hpp>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>

#include "runtime/device/device_state.hpp"
#include "runtime/device/execution.hpp"
#include "runtime/door/submit.hpp"
#include "runtime/memory/buffer_state.hpp"
#include "scheduler/device/ticket_guard.hpp"

namespace heddle::rt {

/// The memory has its values, or will have them by what uses it.
[[nodiscard]] inline bool is_there(const BufferState& buffer) noexcept {
  return buffer.memory != nullptr && !may_be_fresh(buffer);
}

/// The uses of one launch, while it takes its ticket. Under the ledger of the device.
class PlainUses {
 public:
  /// More of them take memory.
  static constexpr std::size_t room = 32;

  explicit PlainUses(const DeviceState& device)
      : device_(device), disturbances_(sched::disturbances(*device.timeline)) {}

  [[nodiscard]] std::uint64_t timeline() const noexcept { return device_.timeline->id(); }
  [[nodiscard]] std::uint64_t disturbances() const noexcept { return disturbances_; }
  /// `record` is what Hazards::plain() found for `next`. `unkept`: memory that the task keeps by
  /// nothing; null: it keeps it.
  void add(Hazards& hazards, Hazards::Record* record, const Hazards::Next& next,
           const Memory* unkept = nullptr) {
    uses_.push_back({&hazards, record, next, unkept});
  }
  /// A ticket, by which all of them are noted; none where there plainly is no room. `note` is given
  /// one where the device was disturbed meanwhile: then the task looks again before it runs.
  [[nodiscard]] sched::PlainTicket take_ticket(std::optional<sched::TaskNote>& note) const {
    sched::PlainTicket ticket(*device_.timeline);
    if (!ticket) return ticket;
    if (sched::disturbed_since(*device_.timeline, disturbances_)) [[unlikely]] {
      note.emplace();
      for (const OneUse& use : uses_) doubt(*use.hazards, use.next, *note);
    }
    for (const OneUse& use : uses_) {
      use.hazards->note_plainly(use.record, ticket.event(), use.next, false);
      if (use.unkept != nullptr) use.unkept->be_bare();
    }
    return ticket;
  }

 private:
  struct OneUse {
    Hazards* hazards;
    Hazards::Record* record;
    Hazards::Next next;
    const Memory* unkept;
  };
  const DeviceState& device_;
  const std::uint64_t disturbances_;
  boost::container::small_vector<OneUse, room> uses_;
};

/// Submits `launch` by the fast path; false: it has to take the careful one, and nothing happened.
/// The launch says of itself, the first two under the ledger of the device:
///   bool look(PlainUses&)           adds all that it uses; false: something is not there, or is to
///                                   be waited for
///   void accepted(Event)            it has that ticket, and the uses are noted
///   const sched::TaskOps& ops()     how the queue handles the task
///   sched::Label put(void*, Event)  builds it in its slot, without the ledger; its label
template <class Launch>
[[nodiscard]] bool submit_plainly(const DeviceState& device, Launch& launch) {
  Ledger& ledger = *device.execution->ledger;
  if (!ledger.try_lock_alone()) return false;
  sched::PlainTicket ticket;
  std::optional<sched::TaskNote> note;
  {
    const std::lock_guard lock(ledger, std::adopt_lock);
    PlainUses uses(device);
    if (launch.look(uses)) ticket = uses.take_ticket(note);
    if (ticket) launch.accepted(ticket.event());
  }
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
