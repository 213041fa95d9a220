// The state of a device, for people and watchdogs: counters and snapshots. Any thread.
#include <fmt/format.h>
#include <time.h>

#include <algorithm>

#include "scheduler/device/device_core.hpp"
#include "scheduler/device/hooks.hpp"

namespace heddle::sched {

Counters DeviceCore::counters() const noexcept {
  Counters c;
  const Lane<>& lane = admission_.lane();
  const std::uint64_t ended = device_.timeline->completed();
  consumer_.show(c);
  // A task that ends meanwhile may be counted as failed already.
  c.done = ended - std::min(ended, c.failed + c.skipped + c.cancelled);
  c.wakes = summons_.wakes();
  c.submitted = lane.tickets();
  const std::uint64_t outstanding =
      c.submitted - std::min(c.submitted, device_.timeline->completed());
  c.queue_max = std::max(lane.outstanding_max(), outstanding);
  return c;
}

Snapshot DeviceCore::snapshot() const {
  Snapshot s;
  s.device = device_.name();
  s.id = device_.id;
  const std::uint64_t completed = device_.timeline->completed();
  const std::uint64_t tickets = admission_.lane().tickets();
  s.queued = tickets - std::min(completed, tickets);
  if (s.queued > 0) {
    s.running_ticket = completed + 1;
    consumer_.show(s);
    if (!s.running.empty()) parts_.show(s, device_);
  }
  s.counters = counters();
  if (s.status = device_.forked(); s.status.ok()) control_.show(s);
  return s;
}

void RunningTask::note_time(const Identity& device) noexcept {
  timespec coarse{};
  ::clock_gettime(CLOCK_MONOTONIC_COARSE, &coarse);
  const std::chrono::nanoseconds time =
      device.simulated
          ? now().time_since_epoch()
          : std::chrono::seconds(coarse.tv_sec) + std::chrono::nanoseconds(coarse.tv_nsec);
  // relaxed: pairs with the load in show(); orders no memory.
  clock_ns_.store(time.count(), std::memory_order_relaxed);
}

void RunningTask::show(Snapshot& snapshot) const {
  // relaxed, here and below: values for snapshots; pairs with the stores above and in run().
  const char* const label = label_.load(std::memory_order_relaxed);
  if (label == nullptr || looking_.load(std::memory_order_relaxed)) return;
  const std::chrono::nanoseconds since(clock_ns_.load(std::memory_order_relaxed));
  snapshot.running = label;
  snapshot.running_for = now().time_since_epoch() - since;
}

std::string Snapshot::to_string() const {
  std::string text = fmt::format("{}: {} queued", device, queued);
  if (recoveries != 0) text += fmt::format(", {} recoveries", recoveries);
  if (!running.empty()) {
    text += fmt::format(", runs '{}' (ticket {}) for {} ms", running, running_ticket,
                        std::chrono::duration_cast<std::chrono::milliseconds>(running_for).count());
    if (!part.empty()) text += fmt::format(", in {}", part);
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
