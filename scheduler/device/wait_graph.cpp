// The graph of waits: searching for a cycle, noting a wait, describing a cycle.
#include "scheduler/device/wait_graph.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <mutex>
#include <string>

#include "scheduler/device/timeline.hpp"
#include "scheduler/device/whole.hpp"
#include "scheduler/threads/process_mutex.hpp"
#include "scheduler/threads/task_context.hpp"

namespace heddle::sched {
namespace {

constinit ProcessMutex graph_mutex;

/// The outer task that the wait of `task` also blocks; null: none.
const TaskContext* beneath(const TaskContext& task, WaitManner manner) noexcept {
  return manner.holds_up ? task.outer : nullptr;
}

}  // namespace

/// Searches the graph. Under the graph's lock. Waits that have finished may still be noted. The
/// search ignores finished waits, and unfinished waits never form a cycle, so every search ends.
struct WaitGraph::Walk {
  [[nodiscard]] static GraphWait& wait_of(const Timeline& timeline) noexcept {
    return timeline.graph_wait_;
  }
  [[nodiscard]] static bool goes_on(const Timeline& timeline) noexcept {
    const GraphWait& wait = wait_of(timeline);
    return wait.target != nullptr && !wait.target->reached(wait.id, wait.ticket) &&
           !wait.target->ends_by_itself(wait.ticket) && !wait.stop.stop_requested();
  }
  /// The timeline that `timeline` waits for; null: none.
  [[nodiscard]] static const Timeline* ahead(const Timeline& timeline) noexcept {
    return goes_on(timeline) ? wait_of(timeline).target : nullptr;
  }
  /// The first timeline, from `waiter` on in the list, that still waits.
  [[nodiscard]] static const Timeline* first_of(const Timeline* waiter) noexcept {
    while (waiter != nullptr && !goes_on(*waiter)) waiter = wait_of(*waiter).next;
    return waiter;
  }
  /// The timeline after `at` among those that wait for `root`, directly or not; null at the end.
  [[nodiscard]] static const Timeline* behind(const Timeline& root, const Timeline* at) noexcept {
    if (const Timeline* const below = first_of(wait_of(*at).first_waiter)) return below;
    for (; at != &root; at = wait_of(*at).target) {
      if (const Timeline* const next = first_of(wait_of(*at).next)) return next;
    }
    return nullptr;
  }
  /// True if `target` waits for `waiter`, directly or not. Searches from both sides in turn: the
  /// search ends with the shorter side, so a chain of n waits is built in O(n log n) steps, in any
  /// order.
  [[nodiscard]] static bool closes(const Timeline& waiter, const Timeline& target) noexcept {
    const Timeline* to = &target;
    const Timeline* from = &waiter;
    while (true) {
      if (to == &waiter) return true;
      to = ahead(*to);
      if (to == nullptr) return false;
      from = behind(waiter, from);
      if (from == nullptr) return false;
      if (from == &target) return true;
    }
  }
};

/// A wait of a cycle, for its description.
struct WaitGraph::Hop {
  const Timeline* waiter = nullptr;
  std::uint64_t waiter_id = 0;
  GraphWait wait{};

  [[nodiscard]] std::string text() const {
    return fmt::format("'{}' (task '{}') waits for {}#{}", waiter->name_of(waiter_id), wait.label,
                       wait.target->name_of(wait.id), wait.ticket);
  }
};

void WaitGraph::link(const Timeline& waiter, const GraphWait& wait) noexcept {
  unlink(waiter);
  GraphWait& mine = Walk::wait_of(waiter);
  const Timeline*& first = Walk::wait_of(*wait.target).first_waiter;
  mine.target = wait.target;
  mine.id = wait.id;
  mine.ticket = wait.ticket;
  mine.label = wait.label;
  mine.stop = wait.stop;
  mine.previous = nullptr;
  mine.next = first;
  if (first != nullptr) Walk::wait_of(*first).previous = &waiter;
  first = &waiter;
}

void WaitGraph::unlink(const Timeline& waiter) noexcept {
  GraphWait& mine = Walk::wait_of(waiter);
  if (mine.target == nullptr) return;
  (mine.previous != nullptr ? Walk::wait_of(*mine.previous).next
                            : Walk::wait_of(*mine.target).first_waiter) = mine.next;
  if (mine.next != nullptr) Walk::wait_of(*mine.next).previous = mine.previous;
  mine.target = mine.next = mine.previous = nullptr;
  mine.stop = std::stop_token();
}

Status WaitGraph::enter(const TaskContext& task, const Event& event, WaitManner manner,
                        const std::stop_token& stop) noexcept {
  constexpr std::size_t hops_max = 8;
  std::array<Hop, hops_max> hops;
  std::size_t count = 0;
  {
    const std::lock_guard lock(graph_mutex);
    const Timeline* const target = Timeline::of(event);
    if (target->reached(event.device_id(), event.ticket()) || stop.stop_requested()) return {};
    // This also accepts a wait for an issued ticket of the task's own device.
    if (target->ends_by_itself(event.ticket())) return {};
    const TaskContext* held = &task;
    while (held != nullptr && !Walk::closes(Whole::timeline(*held->device), *target))
      held = beneath(*held, manner);
    if (held == nullptr) {
      if (manner.timed) return {};
      for (const TaskContext* at = &task; at != nullptr; at = beneath(*at, manner)) {
        link(Whole::timeline(*at->device),
             {target, event.device_id(), event.ticket(), Whole::label(*at->device), stop});
      }
      return {};
    }
    for (const Timeline* at = target; at != &Whole::timeline(*held->device) && at != nullptr;
         at = Walk::wait_of(*at).target, ++count) {
      if (count < hops_max) hops[count] = {at, at->id(), Walk::wait_of(*at)};
    }
  }
  return Status(ErrorCode::failed_precondition, [&] {
    std::string cycle;
    for (std::size_t k = 0; k < std::min(count, hops_max); ++k) cycle += ", " + hops[k].text();
    if (count > hops_max) cycle += fmt::format(", and so on: {} more", count - hops_max);
    return fmt::format(
        "task '{}' of device '{}' (ticket {}) cannot wait for {}: that would close a cycle of "
        "waits, of which none could end{}; submit what comes after that event as a task of its "
        "own, with the event in its `after`",
        Whole::label(*task.device), Whole::timeline(*task.device).name(), task.ticket,
        event.to_string(), cycle);
  });
}

void WaitGraph::leave(const TaskContext& task, WaitManner manner) noexcept {
  if (manner.timed) return;
  const std::lock_guard lock(graph_mutex);
  for (const TaskContext* at = &task; at != nullptr; at = beneath(*at, manner))
    unlink(Whole::timeline(*at->device));
}

}  // namespace heddle::sched
