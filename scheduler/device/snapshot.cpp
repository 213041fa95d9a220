// What a device is at, for people and watchdogs: counters and snapshots. Any thread.
#include <fmt/format.h>

#include <algorithm>

#include "scheduler/device/hooks.hpp"
#include "scheduler/device/worker.hpp"

namespace heddle::sched {

Counters DeviceCore::counters() const noexcept {
  Counters c;
  // relaxed: numbers for people; exact when the device is idle. They pair with the stores of the
  // consumer.
  constexpr auto order = std::memory_order_relaxed;
  const std::uint64_t ended = timeline_->completed();
  c.failed = failed_.load(order);
  c.skipped = skipped_.load(order);
  c.cancelled = cancelled_.load(order);
  // A task that ends meanwhile may be counted as failed already.
  c.done = ended - std::min(ended, c.failed + c.skipped + c.cancelled);
  c.parks = parks_.load(order);
  c.wakes = wakes_.load(order);
  c.spins = spins_.load(order);
  c.submitted = lane_.tickets();
  const std::uint64_t outstanding = c.submitted - std::min(c.submitted, timeline_->completed());
  c.queue_max = std::max(lane_.outstanding_max(), outstanding);
  return c;
}

Snapshot DeviceCore::snapshot() const {
  Snapshot s;
  s.device = timeline_->name();
  s.id = id_;
  const std::uint64_t completed = timeline_->completed();
  const std::uint64_t tickets = lane_.tickets();
  s.queued = tickets - std::min(completed, tickets);
  if (s.queued > 0) s.running_ticket = completed + 1;
  // relaxed: a picture for people; pairs with the stores in step_carefully() and note_time().
  const char* const running = label_.load(std::memory_order_relaxed);
  if (s.queued > 0 && running != nullptr && !looking_.load(std::memory_order_relaxed)) {
    s.running = running;
    // relaxed: as above.
    const std::chrono::nanoseconds since(clock_ns_.load(std::memory_order_relaxed));
    s.running_for = now().time_since_epoch() - since;
  }
  s.counters = counters();
  if (s.status = forked(); !s.status.ok()) return s;
  Event waited;
  Clock::time_point since;
  {
    const std::lock_guard lock(control_);
    waited = waiting_for_;
    since = waiting_since_;
    s.epoch = epoch_;
    s.status = poison_;
  }
  if (const Timeline* const timeline = Timeline::of(waited); timeline != nullptr) {
    s.waiting_for = waited.to_string();
    s.signaller = timeline->signaller_of(waited.timeline());
    s.waiting_time = now() - since;
  }
  return s;
}

std::string Snapshot::to_string() const {
  std::string text = fmt::format("{}: {} queued, epoch {}", device, queued, epoch);
  if (!running.empty()) {
    text += fmt::format(", runs '{}' (ticket {}) for {} ms", running, running_ticket,
                        std::chrono::duration_cast<std::chrono::milliseconds>(running_for).count());
  }
  if (!waiting_for.empty()) {
    text +=
        fmt::format(", waits for {}, which {} must end, for {} ms", waiting_for, signaller,
                    std::chrono::duration_cast<std::chrono::milliseconds>(waiting_time).count());
  }
  text += fmt::format("; {} submitted = {} done + {} failed + {} skipped + {} cancelled",
                      counters.submitted, counters.done, counters.failed, counters.skipped,
                      counters.cancelled);
  if (!status.ok()) text += "; poisoned: " + status.to_string();
  return text;
}

}  // namespace heddle::sched
