// Track: what the tickets of one timeline come after. One thread at a time.
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

/// What tickets from this one on come after, to the next point; beside those before them on their
/// own timeline.
struct Point {
  std::uint64_t ticket;
  VectorClock clock;
};

struct Track {
  std::uint64_t first = 0, last = 0;    // tickets that were submitted meanwhile; 0: none
  std::uint64_t count = 0;              // of these
  std::uint64_t merged = 0;             // tickets before have the clock of the first point
  bool named = false;                   // others know of it
  std::deque<Point> points;             // by ticket
  VectorClock next;                     // what the next ticket comes after, too
  std::map<std::uint64_t, Event> open;  // tickets that may come to know more

  [[nodiscard]] const VectorClock* clock_of(std::uint64_t ticket) const noexcept {
    if (ticket < merged) return &points.front().clock;
    const auto after = std::ranges::upper_bound(points, ticket, {}, &Point::ticket);
    return after == points.begin() ? nullptr : &std::prev(after)->clock;
  }
  /// Whether a ticket up to this one may come to know more.
  [[nodiscard]] bool learns(std::uint64_t ticket) noexcept {
    drop_ended();
    if (!open.empty() && open.begin()->first <= ticket) return true;
    return first != 0 && last - first + 1 != count;  // another thread is about to tell of one
  }
  void drop_ended() noexcept {
    while (!open.empty() && Timeline::has_ended(open.begin()->second)) open.erase(open.begin());
  }
};

}  // namespace heddle::sched
