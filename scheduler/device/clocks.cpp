// See clocks.hpp.
#include "scheduler/device/clocks.hpp"

#include <pthread.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

#include "scheduler/device/clock_track.hpp"
#include "scheduler/device/timeline.hpp"
#include "scheduler/device/vector_clock.hpp"
#include "scheduler/threads/fork.hpp"
#include "scheduler/threads/never_destroyed.hpp"
#include "scheduler/threads/process_mutex.hpp"
#include "scheduler/threads/task_context.hpp"

namespace heddle::sched {
namespace {

/// The maximum number of points of one timeline. Beyond it, the oldest tickets take the clock of
/// the next point: the race check may then miss a missing order, but never reports an order that
/// exists as missing.
constexpr std::size_t points_max = 1024;

struct Suspect {
  Event task, before;
  std::function<void()> tell;
};

class Book {
 public:
  std::size_t holders = 0;
  std::vector<Suspect> suspects;

  void clear() noexcept {
    tracks_.clear();
    host_ = {};
    suspects.clear();
  }

  /// Joins `event` and its predecessors into `to`.
  void add(VectorClock& to, const Event& event) {
    const std::uint64_t timeline = event.device_id();
    if (is_closed(event)) return;
    Track& track = tracks_[timeline];
    track.named = true;
    if (track.first == 0 && !Timeline::has_ended(event))  // a foreign signaller's event
      track.open.emplace(event.ticket(), event);
    add(to, timeline, event.ticket());
  }
  void add(VectorClock& to, std::uint64_t timeline, std::uint64_t ticket) {
    const Track& track = tracks_[timeline];
    to.join(timeline, ticket);
    if (const VectorClock* const clock = track.clock_of(ticket)) to.join(*clock);
  }
  /// Adds the events known to the current task. Outside tasks adds no events: every submission
  /// knows the ends seen by the host, which host_ keeps.
  void add_here(VectorClock& to) {
    const TaskContext* const task = running_task();
    if (task == nullptr) return;
    tracks_[task->timeline].named = true;
    if (task->ticket > 1) add(to, task->timeline, task->ticket - 1);
    if (const auto* const clock = tracks_[task->timeline].clock_of(task->ticket)) to.join(*clock);
  }
  [[nodiscard]] static const TaskContext* running_task() noexcept {
    const TaskContext* const task = current_task();
    return task != nullptr && task->ending == nullptr ? task : nullptr;
  }

  void submitted(const Event& task, std::span<const Event> after, bool learns) {
    const std::uint64_t ticket = task.ticket();
    VectorClock edges;
    for (const Event& each : after) add(edges, each);
    add_here(edges);
    Track& track = tracks_[task.device_id()];
    edges.join(std::exchange(track.next, {}));
    const bool in_turn = ticket > track.last;
    track.first = track.first == 0 ? ticket : std::min(track.first, ticket);
    track.last = std::max(track.last, ticket);
    ++track.count;
    track.drop_ended();
    if (learns) track.open.emplace(ticket, task);
    if (in_turn) {
      append(track, task.device_id(), ticket, std::move(edges));
    } else {
      insert(task.device_id(), ticket, edges);
    }
    drop_seen(track);
  }
  void comes_after(const Event& task, const Event& before) {
    VectorClock edges;
    add(edges, before);
    insert(task.device_id(), task.ticket(), edges);
  }
  void next_comes_after(std::uint64_t timeline, const Event& before) {
    VectorClock edges;
    add(edges, before);
    tracks_[timeline].next.join(edges);
  }
  [[nodiscard]] bool is_owed(std::uint64_t timeline) const noexcept {
    const auto at = tracks_.find(timeline);
    return at != tracks_.end() && !at->second.next.entries().empty();
  }
  void saw(const Event& event, const TaskContext* task) {
    VectorClock seen;
    add(seen, event);
    if (task != nullptr) {
      insert(task->timeline, task->ticket, seen);
    } else {
      host_.join(seen);
    }
  }
  void ends(std::uint64_t timeline, std::uint64_t ticket, bool foreign) {
    // The order in which a device's own queue reports ends is not an order that a user requested.
    if (!foreign && !tracks_[timeline].open.contains(ticket)) return;
    VectorClock known = host_;
    add_here(known);
    insert(timeline, ticket, known);
    drop_seen(tracks_[timeline]);
  }
  void closed(std::uint64_t timeline) {
    const auto at = tracks_.find(timeline);
    if (at == tracks_.end()) return;
    // The closing thread has seen every end of the timeline.
    if (!at->second.points.empty()) host_.join(at->second.points.back().clock);
    tracks_.erase(at);
    host_.forget(timeline);
    for (auto& [id, track] : tracks_) {
      for (Point& each : track.points) each.clock.forget(timeline);
      track.next.forget(timeline);
    }
  }

  [[nodiscard]] Clocks::Answer ask(const Event& task, const Event& before) noexcept {
    if (is_seen(before) || is_known(task, before)) return Clocks::Answer::ordered;
    const auto at = tracks_.find(task.device_id());
    if (at == tracks_.end()) return Clocks::Answer::ordered;  // the timeline is closed
    bool open = at->second.learns(task.ticket());
    if (const VectorClock* const clock = at->second.clock_of(task.ticket())) {
      for (const VectorClock::Entry& each : clock->entries()) {
        const auto other = tracks_.find(each.timeline);
        open = open || (other != tracks_.end() && other->second.learns(each.ticket));
      }
    }
    return open ? Clocks::Answer::open : Clocks::Answer::unordered;
  }
  [[nodiscard]] bool is_seen(const Event& event) const noexcept {
    const auto at = tracks_.find(event.device_id());
    return is_closed(event) || at == tracks_.end() || at->second.first == 0 ||
           event.ticket() < at->second.first || event.ticket() <= host_.at(event.device_id());
  }
  [[nodiscard]] bool is_seen_here(const Event& event) const noexcept {
    if (is_seen(event)) return true;
    const TaskContext* const task = running_task();
    return task != nullptr && is_known(task->timeline, task->ticket, event);
  }
  /// By the order of submission, and as far as known now.
  [[nodiscard]] bool is_known(const Event& task, const Event& before) const noexcept {
    return is_known(task.device_id(), task.ticket(), before);
  }
  [[nodiscard]] std::size_t size() const noexcept {
    std::size_t all = suspects.size();
    for (const auto& [id, track] : tracks_) all += track.points.size() + track.open.size() + 1;
    return all;
  }

 private:
  /// Then the host has seen the end, or the event never had a timeline.
  [[nodiscard]] static bool is_closed(const Event& event) noexcept {
    return event.device_id() == 0 || Timeline::of(event)->id() != event.device_id();
  }
  [[nodiscard]] bool is_known(std::uint64_t timeline, std::uint64_t ticket,
                              const Event& before) const noexcept {
    if (before.device_id() == timeline) return before.ticket() <= ticket;
    const auto at = tracks_.find(timeline);
    const VectorClock* const clock = at == tracks_.end() ? nullptr : at->second.clock_of(ticket);
    return clock != nullptr && clock->at(before.device_id()) >= before.ticket();
  }

  /// Appends the latest ticket, not yet named by other clocks.
  void append(Track& track, std::uint64_t timeline, std::uint64_t ticket, VectorClock edges) {
    edges.forget(timeline);
    forget_seen(edges);
    if (edges.entries().empty()) return;
    if (!track.points.empty()) {
      const VectorClock& before = track.points.back().clock;
      if (before.covers(edges)) return;
      edges.join(before);
      forget_seen(edges);
    }
    track.points.push_back({ticket, std::move(edges)});
    if (track.points.size() <= points_max) return;
    track.points.pop_front();
    track.merged = track.points.front().ticket;
  }
  /// Adds predecessors to any ticket: its successors gain the same predecessors.
  void insert(std::uint64_t timeline, std::uint64_t ticket, const VectorClock& edges) {
    Track& track = tracks_[timeline];
    if (ticket >= track.merged) {
      const auto after = std::ranges::upper_bound(track.points, ticket, {}, &Point::ticket);
      if (after == track.points.begin()) {
        track.points.insert(after, {ticket, {}});
      } else if (std::prev(after)->ticket != ticket) {
        VectorClock clock = std::prev(after)->clock;
        track.points.insert(after, {ticket, std::move(clock)});
      }
    }
    for (auto& [id, each] : tracks_) {
      if (id != timeline && !track.named) continue;
      const auto knows = [&, own = id == timeline](const VectorClock& clock, std::uint64_t at) {
        return own ? at >= ticket : clock.at(timeline) >= ticket;
      };
      for (Point& point : each.points) {
        if (!knows(point.clock, point.ticket)) continue;
        point.clock.join(edges);
        point.clock.forget(id);
      }
      if (id != timeline && knows(each.next, 0)) each.next.join(edges);
    }
    std::erase_if(suspects, [&](const Suspect& each) { return is_known(each.task, each.before); });
  }
  /// Every later submission knows the ends that the host has seen. Suspects were submitted earlier,
  /// and may still learn of those ends.
  void forget_seen(VectorClock& clock) const noexcept {
    if (suspects.empty()) clock.subtract(host_);
  }
  void drop_seen(Track& track) const noexcept {
    while (suspects.empty() && !track.points.empty() && host_.covers(track.points.front().clock)) {
      track.points.pop_front();
      track.merged = 0;
    }
  }

  std::map<std::uint64_t, Track> tracks_;  // by timeline
  VectorClock host_;                       // ends seen by threads of the host
};

void set_on(bool on) noexcept {
  // relaxed: pairs with the load in submits_on(); a submitter then asks the book, which has a lock.
  constexpr auto order = std::memory_order_relaxed;
  if (on) {
    trace::submits.fetch_or(trace::submits_watched, order);
  } else {
    trace::submits.fetch_and(static_cast<std::uint8_t>(~trace::submits_watched), order);
  }
}

/// A forking thread holds this mutex, which keeps other threads out.
constinit ProcessMutex book_mutex;

/// Never destroyed: users query events during exit too. Called while `book_mutex` is locked, or in
/// a forked child.
Book& the_book() noexcept {
  static NeverDestroyed<Book> made;
  return *made;
}

/// A forked child begins with an empty book. The reset neither takes nor frees memory, because a
/// sanitizer's locks may be held there.
void forget_in_children() noexcept {
  // Not a static variable: a child would wait for ever for the thread that was initializing it.
  static constinit pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, [] {
    pthread_atfork(nullptr, nullptr, [] {
      set_on(false);
      ::new (static_cast<void*>(&the_book())) Book;
    });
  });
}

/// Calls `f` with the book, under its lock.
template <class F>
auto with_book(const F& f) noexcept -> decltype(f(std::declval<Book&>())) {
  const std::lock_guard lock(book_mutex);
  Book& book = the_book();
  try {
    return f(book);
  } catch (...) {  // no memory: every earlier submission counts as known
    book.clear();
  }
  return decltype(f(book))();
}

}  // namespace

Clocks::Hold::Hold() : fork_generation_(sched::fork_generation()) {
  forget_in_children();
  with_book([](Book& book) {
    if (++book.holders > 1) return;
    book.clear();
    set_on(true);
  });
}

Clocks::Hold::~Hold() {
  if (fork_generation_ != sched::fork_generation()) return;
  with_book([](Book& book) {
    if (--book.holders > 0) return;
    set_on(false);
    book.clear();
  });
}

void Clocks::submitted(const Event& task, std::span<const Event> after, bool learns) noexcept {
  with_book([&](Book& book) { book.submitted(task, after, learns); });
}
void Clocks::comes_after(const Event& task, const Event& before) noexcept {
  with_book([&](Book& book) { book.comes_after(task, before); });
}
void Clocks::next_comes_after(std::uint64_t timeline, const Event& before) noexcept {
  with_book([&](Book& book) { book.next_comes_after(timeline, before); });
}
bool Clocks::is_owed(std::uint64_t timeline) noexcept {
  return with_book([&](Book& book) { return book.is_owed(timeline); });
}
void Clocks::saw(const Event& event) noexcept {
  with_book([&](Book& book) { book.saw(event, Book::running_task()); });
  tell_due();
}
void Clocks::host_saw(const Event& event) noexcept {
  with_book([&](Book& book) { book.saw(event, nullptr); });
  tell_due();
}
void Clocks::ends(std::uint64_t timeline, std::uint64_t ticket, bool foreign) noexcept {
  with_book([&](Book& book) { book.ends(timeline, ticket, foreign); });
}
void Clocks::closed(std::uint64_t timeline) noexcept {
  with_book([&](Book& book) { book.closed(timeline); });
}

Clocks::Answer Clocks::ask(const Event& task, const Event& before) noexcept {
  return with_book([&](Book& book) { return book.ask(task, before); });
}
bool Clocks::is_seen(const Event& event) noexcept {
  return with_book([&](Book& book) { return book.is_seen(event); });
}
bool Clocks::is_seen_here(const Event& event) noexcept {
  return with_book([&](Book& book) { return book.is_seen_here(event); });
}

void Clocks::tell_unless_ordered(const Event& task, const Event& before,
                                 std::function<void()> tell) {
  const std::lock_guard lock(book_mutex);
  Book& book = the_book();
  if (!book.is_known(task, before)) book.suspects.push_back({task, before, std::move(tell)});
}

void Clocks::tell_due() noexcept {
  std::vector<Suspect> due;
  with_book([&](Book& book) {
    // A loop in place of stable_partition, whose implementation uses library parts that C++20
    // removed.
    auto kept = book.suspects.begin();
    for (Suspect& each : book.suspects) {
      if (Timeline::has_ended(each.task)) {
        due.push_back(std::move(each));
      } else if (Suspect& place = *kept++; &place != &each) {
        place = std::move(each);
      }
    }
    book.suspects.erase(kept, book.suspects.end());
  });
  for (const Suspect& each : due) {
    if (Timeline::outcome_of(each.task).ok()) each.tell();
  }
}

std::size_t Clocks::size() noexcept {
  return with_book([](Book& book) { return book.size(); });
}

}  // namespace heddle::sched
