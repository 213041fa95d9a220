// Track: the predecessors of the tickets of one timeline. One thread at a time.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <iterator>
#include <map>

#include "heddle/event.hpp"
#include "scheduler/device/timeline.hpp"
#include "scheduler/device/vector_clock.hpp"

namespace heddle::sched {

/// `clock` holds the predecessors of tickets from `ticket` to the next point, beside the earlier
/// tickets of the same timeline.
struct Point {
  std::uint64_t ticket;
  VectorClock clock;
};

struct Track {
  std::uint64_t first = 0, last = 0;    // range of tickets submitted while clocks are kept; 0: none
  std::uint64_t count = 0;              // number of tickets in that range
  std::uint64_t merged = 0;             // earlier tickets have the clock of the first point
  bool named = false;                   // another timeline's clock contains an entry for this track
  std::deque<Point> points;             // by ticket
  VectorClock next;                     // further predecessors of the next ticket
  std::map<std::uint64_t, Event> open;  // tickets that may still gain predecessors

  [[nodiscard]] const VectorClock* clock_of(std::uint64_t ticket) const noexcept {
    if (ticket < merged) return &points.front().clock;
    const auto after = std::ranges::upper_bound(points, ticket, {}, &Point::ticket);
    return after == points.begin() ? nullptr : &std::prev(after)->clock;
  }
  /// True if a ticket up to `ticket` may still gain predecessors.
  [[nodiscard]] bool learns(std::uint64_t ticket) noexcept {
    drop_ended();
    if (!open.empty() && open.begin()->first <= ticket) return true;
    return first != 0 && last - first + 1 != count;  // another thread is about to report a ticket
  }
  void drop_ended() noexcept {
    while (!open.empty() && Timeline::has_ended(open.begin()->second)) open.erase(open.begin());
  }
};

}  // namespace heddle::sched
