// See runtime/memory/hazards.hpp.
#include "runtime/memory/hazards.hpp"

#include <algorithm>
#include <memory>

#include "runtime/memory/order_watch.hpp"
#include "scheduler/device/ticket_guard.hpp"
#include "scheduler/device/timeline.hpp"
#include "scheduler/protocol/lane.hpp"

namespace heddle::rt {
namespace {

/// Above this number of records, order() also drops ended uses of the new use's timeline.
constexpr std::size_t records_many = 16;
/// Initial capacity: a first use and one or two later uses, wherever their ranges are cut.
constexpr std::size_t room_min = 8;

/// The use has ended, and no required values are missing.
bool is_over(const Hazards::Record& record) noexcept {
  return sched::Timeline::has_ended(record.event) &&
         (!record.writes || !record.heeded || ended_well(record.event));
}

/// For a record on `next`'s timeline: the use succeeded, or will succeed before `next`, or `next`
/// will not run.
bool is_sure(const Hazards::Record& record, const Hazards::Next& next) noexcept {
  return !record.alone && sched::undisturbed(record.disturbances, next.disturbances);
}

bool concerns(const Hazards::Record& record, const Hazards::Next& next) noexcept {
  return (next.automatic || record.former) &&
         conflict(record.range, record.writes, next.range, writes(next.use));
}

/// True if `next` reads values written by the record's use.
bool is_read_by(const Hazards::Record& record, const Hazards::Next& next) noexcept {
  return record.writes && record.heeded && next.use != Use::overwrite;
}

}  // namespace

bool ended_well(const Event& event) noexcept {
  return sched::Timeline::has_ended(event) && sched::Timeline::outcome_of(event).ok();
}

bool ended_badly(const Event& event) noexcept {
  return sched::Timeline::has_ended(event) && !sched::Timeline::outcome_of(event).ok();
}

std::optional<Event> Hazards::order(const Next& next, std::size_t uses, sched::TaskNote& note) {
  const bool many = records_.size() > records_many;
  std::erase_if(records_, [&](const Record& record) {
    const bool plain = !record.former && record.event.device_id() == next.timeline;
    return (many || !plain) && is_over(record);
  });
  for (const Record& record : records_) {
    if (!concerns(record, next)) continue;
    const bool heeds = is_read_by(record, next);
    const bool here = record.event.device_id() == next.timeline;
    if (here && (!heeds || is_sure(record, next))) continue;
    const bool ended = sched::Timeline::has_ended(record.event);  // the event may end meanwhile
    if (ended && (!heeds || ended_well(record.event))) continue;
    if (ended && !next.accepted) return record.event;
    note.come_after(record.event, heeds);
  }
  make_room(uses);
  return std::nullopt;
}

void Hazards::doubt(const Next& next, sched::TaskNote& note) const {
  for (const Record& record : records_) {
    const bool here = record.event.device_id() == next.timeline;
    if (here && concerns(record, next) && is_read_by(record, next)) note.come_after(record.event);
  }
}

std::optional<Event> Hazards::lacks(const Range& range, Use use) const noexcept {
  if (use == Use::overwrite) return std::nullopt;
  for (const Record& record : records_) {
    const bool bad = record.writes && record.heeded && record.range.overlaps(range) &&
                     sched::Timeline::has_ended(record.event) && !ended_well(record.event);
    if (bad) return record.event;
  }
  return std::nullopt;
}

/// Reserves records for `uses` uses, each of which may cut every record in three, and for first
/// values.
void Hazards::make_room(std::size_t uses) {
  const std::size_t needed = records_.size() * (1 + 2 * uses) + uses + 1;
  // Doubled: a buffer that gains a record now and then soon has spare capacity, and the fast path
  // adds records only within the capacity.
  if (needed > records_.capacity())
    records_.reserve(std::max({needed, 2 * records_.capacity(), room_min}));
}

bool Hazards::is_superseded(const Record& record, const Next& next) noexcept {
  return record.writes && record.range == next.range && record.event.device_id() == next.timeline &&
         is_sure(record, next);
}

Hazards::Like Hazards::look_plainly(const Next& next, std::size_t parts) noexcept {
  Record* mine = nullptr;
  for (Record& record : records_) {
    const bool here = record.event.device_id() == next.timeline;
    if (!here && (next.automatic || record.former)) return std::nullopt;
    const bool same = record.range == next.range && record.writes == writes(next.use);
    if (here && same && !record.former) {
      // two parts cut to the same range: note() removes one
      if (mine != nullptr) return std::nullopt;
      mine = &record;
    }
    if (!record.writes || !record.heeded || !record.range.overlaps(next.range)) continue;
    // An overwrite clears `heeded` (values required) in every other overlapping record, a task for
    // note(). A read has to check a write that may fail.
    if (leaves_new(next.use) && &record != mine) return std::nullopt;
    if (next.use != Use::overwrite && concerns(record, next) && !(here && is_sure(record, next)))
      return std::nullopt;
  }
  const bool room =
      parts > 0 && records_.size() + parts <= std::min(records_.capacity(), records_many);
  if (mine == nullptr && !room) return std::nullopt;
  return mine;
}

/// From `event` on, earlier values of the range are not required. make_room() has reserved two more
/// records for each record present at order().
void Hazards::renew(const Range& range, const Event& event) noexcept {
  for (std::size_t k = records_.size(); k-- > 0;) {
    const Record whole = records_[k];
    if (!whole.writes || !whole.heeded || !whole.range.overlaps(range)) continue;
    if (whole.event.id() == event.id()) continue;  // part of the same task
    const Range inside{std::max(whole.range.begin, range.begin),
                       std::min(whole.range.end, range.end)};
    records_[k].range = inside;
    records_[k].heeded = false;
    for (const Range& rest :
         {Range{whole.range.begin, inside.begin}, Range{inside.end, whole.range.end}}) {
      if (rest.begin == rest.end) continue;
      records_.push_back(whole);
      records_.back().range = rest;
    }
  }
}

void Hazards::note(const Event& event, const Next& next, bool alone) noexcept {
  if (leaves_new(next.use)) renew(next.range, event);
  const bool writing = writes(next.use);
  std::erase_if(records_, [&](const Record& before) {
    // A former owner's record whose values no longer matter can be dropped: whatever waits for this
    // write also waits for it.
    const bool alike = writing ? !before.former || !before.heeded : !before.former;
    const bool mine = alike && before.event.device_id() == next.timeline;
    return mine && (writing || !before.writes) && next.range.covers(before.range);
  });
  add(event, next, alone);  // order() reserved room
}

void Hazards::begin_after(std::span<const Event> uses, Range range, std::uint64_t own) {
  for (const Event& use : uses) {
    const bool here = own != 0 && use.device_id() == own;
    if (here || !sched::Timeline::has_ended(use))
      records_.push_back({use, range, 0, true, true, false, false});
  }
}

void Hazards::begin_with(const Event& first_values, Range range) noexcept {
  std::erase_if(records_, [&](const Record& before) {
    return before.event.device_id() == first_values.device_id();
  });
  records_.push_back({first_values, range, 0, true, true, false, false});  // order() reserved room
}

void Hazards::clear() noexcept {
  records_.clear();
  watched_.reset();
}

void Hazards::reserve() { records_.reserve(room_min); }

void Hazards::forget_ended() noexcept {
  std::erase_if(records_,
                [](const Record& record) { return sched::Timeline::has_ended(record.event); });
}

void Hazards::add_under_way(std::vector<Event>& uses, std::uint64_t own) const {
  for (const Record& record : records_) {
    const bool asked = own == 0 || record.event.device_id() != own;
    if (asked && sched::Timeline::has_ended(record.event)) continue;
    const auto same = std::ranges::find(uses, record.event.device_id(), &Event::device_id);
    if (same == uses.end()) {
      uses.push_back(record.event);
    } else if (same->ticket() < record.event.ticket()) {
      *same = record.event;
    }
  }
}

WatchedUses& Hazards::watched() {
  if (!watched_) watched_ = std::make_shared<WatchedUses>();
  return *watched_;
}

void Hazards::be_former() noexcept {
  for (Record& record : records_) record.former = true;
  if (watched_) watched_->be_former();
}

Hazards Hazards::of_next_owner() const {
  Hazards next;
  for (const Record& record : records_) {
    if (is_over(record)) continue;
    next.records_.push_back(record);
  }
  if (watched_) next.watched_ = std::make_shared<WatchedUses>(*watched_);
  next.be_former();
  return next;
}

}  // namespace heddle::rt
