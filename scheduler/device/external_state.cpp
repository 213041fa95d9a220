// ExternalState: gives tickets to a foreign signaller, which ends them.
#include <fmt/format.h>

#include "scheduler/device/clocks.hpp"
#include "scheduler/device/timeline.hpp"

namespace heddle::sched {

Event ExternalState::next() noexcept {
  if (timeline_->in_forked_child()) return timeline_->refuse(timeline_->fork_refusal());
  // relaxed: gives out numbers; pairs with the load in signal(), under its lock.
  return timeline_->event(tickets_.fetch_add(1, std::memory_order_relaxed) + 1);
}

Status ExternalState::signal(std::uint64_t ticket, const Status& status) noexcept {
  // The parent process has the same waiters and callbacks, and they would run twice.
  if (timeline_->in_forked_child()) return timeline_->fork_refusal();
  bool due = false;
  {
    const std::lock_guard lock(signalling_);
    // relaxed: pairs with the count in next(); a signalling thread has received the ticket.
    const std::uint64_t handed_out = tickets_.load(std::memory_order_relaxed);
    const std::uint64_t ended = timeline_->completed();
    if (ticket <= ended || ticket > handed_out) {
      return Status(ErrorCode::invalid_argument, [&] {
        if (ended == handed_out) {
          return fmt::format(
              "timeline '{}': signal of ticket {}, and no ticket is outstanding: "
              "next() hands them out",
              name(), ticket);
        }
        return fmt::format("timeline '{}': signal of ticket {} (expected {} to {})", name(), ticket,
                           ended + 1, handed_out);
      });
    }
    if (!status.ok()) timeline_->note(ticket, ticket, End::failed, status, true);
    if (Clocks::on()) Clocks::ends(timeline_->id(), ticket, true);
    due = timeline_->advance(ticket);
  }
  if (due) timeline_->call_back(ticket);  // callbacks may signal this same timeline
  return {};
}

ExternalState::~ExternalState() {
  if (timeline_->in_forked_child()) return;
  // relaxed: pairs with the count in next(); this is the last handle.
  const std::uint64_t last = tickets_.load(std::memory_order_relaxed);
  if (timeline_->completed() >= last) return;
  timeline_->note(timeline_->completed() + 1, last, End::failed,
                  Status(ErrorCode::unavailable,
                         [&] {
                           return fmt::format(
                               "timeline '{}' was destroyed before this ticket was signalled",
                               name());
                         }),
                  true);
  timeline_->complete(last);
}

}  // namespace heddle::sched
