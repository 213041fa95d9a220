// Hazards: tracks the last uses of a memory and finds the uses that a new use has to wait for: read
// after write, write after read and write after write, by ranges of bytes, between timelines of
// devices. Tasks of one timeline run in order anyway. Guarded by the lock of the memory's owner.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "heddle/event.hpp"
#include "runtime/memory/range.hpp"
#include "scheduler/device/timeline.hpp"

namespace heddle::sched {
struct TaskNote;
}

namespace heddle::rt {

class WatchedUses;

/// How an event ended. The query does not mark a failure as seen (S10).
[[nodiscard]] bool ended_well(const Event& event) noexcept;
[[nodiscard]] bool ended_badly(const Event& event) noexcept;

class Hazards {
 public:
  /// A use about to take a ticket.
  struct Next {
    std::uint64_t timeline;
    /// cancel epoch of the timeline's device, see sched::disturbances()
    std::uint64_t disturbances;
    Range range;
    Use use;
    bool automatic;  ///< the use also waits for uses of its own owner
    /// if values are missing, the task waits for the failed write and is skipped
    bool accepted = false;
  };
  /// A use of the memory with effect on later uses.
  struct Record {
    Event event;
    Range range;
    std::uint64_t disturbances;
    bool writes;
    bool former;  ///< a former owner's use, or the first values
    bool heeded;  ///< the written values are required; missing if the use failed
    bool alone;   ///< may fail while its device goes on
  };

  /// Adds to `note` the events that `next` has to wait for. Returns a failed write whose values
  /// `next` would read, to refuse the work; never for an accepted `next`. The caller keeps the lock
  /// until note(), and may call note() up to `uses` times. Throws std::bad_alloc.
  [[nodiscard]] std::optional<Event> order(const Next& next, std::size_t uses,
                                           sched::TaskNote& note);
  /// Called if `next` has its ticket, and the cancel epoch of its device changed meanwhile: adds
  /// the writes on its own timeline to `note`, for the task to re-validate. The record that note()
  /// stores has an outdated cancel epoch, and later uses will not assume its success. Throws
  /// std::bad_alloc.
  void doubt(const Next& next, sched::TaskNote& note) const;
  /// A failed write whose values the use would read; none: no such write so far.
  [[nodiscard]] std::optional<Event> lacks(const Range& range, Use use) const noexcept;
  /// The result of plain(): a record, null to add a record, or none. One word, which stays in a
  /// register.
  class Like {
   public:
    Like(Record* record) noexcept : word_(reinterpret_cast<std::uintptr_t>(record)) {}
    Like(std::nullopt_t /*none*/) noexcept : word_(none) {}
    explicit operator bool() const noexcept { return word_ != none; }
    Record* operator*() const noexcept { return reinterpret_cast<Record*>(word_); }

   private:
    static constexpr std::uintptr_t none = 1;  // no record has this address
    std::uintptr_t word_;
  };
  /// The fast path of order(). If no event is to be waited for: the record to be replaced by this
  /// use, or null to add a record. nullopt: call order(). `parts`: number of uses that may add one
  /// record each; 0: none may.
  [[nodiscard, gnu::always_inline]] Like plain(const Next& next, std::size_t parts) noexcept {
    // The most frequent case: repeated reads by one timeline.
    if (next.use == Use::read && records_.size() == 1) [[likely]] {
      Record& only = records_.front();
      if (!only.former && !only.writes && only.range == next.range &&
          only.event.device_id() == next.timeline)
        return &only;
    }
    // Repeated changes, each handed over to a next owner.
    if (next.use == Use::change && records_.size() == 1 && is_superseded(records_.front(), next))
      return &records_.front();
    // An overwrite of new memory used only by tasks of the same timeline before.
    if (next.use == Use::overwrite && parts == 1 && records_.size() < records_.capacity()) {
      const bool is_new = records_.empty() || (records_.size() == 1 && records_.front().former &&
                                               !records_.front().heeded &&
                                               records_.front().event.device_id() == next.timeline);
      if (is_new) [[likely]]
        return nullptr;
    }
    return look_plainly(next, parts);
  }
  /// In place of note(), after plain(). `like`: the result of plain(). A replaced record's values
  /// become required again, even after an overwrite by another use.
  void note_plainly(Record* like, const Event& event, const Next& next, bool alone) noexcept {
    if (like == nullptr) return add(event, next, alone);
    sched::Timeline::advance(like->event, event);
    like->disturbances = next.disturbances;
    like->former = false;
    like->heeded = true;
    like->alone = alone;
  }
  /// Records the accepted use, now the last on its timeline.
  void note(const Event& event, const Next& next, bool alone) noexcept;
  /// Records the uses of the bytes' previous owner, which later uses wait for at any sync. Uses
  /// that have ended are left out, but uses on timeline `own` are recorded without a check.
  void begin_after(std::span<const Event> uses, Range range, std::uint64_t own = 0);
  /// Records the task that writes the first values, whether it succeeds or fails. Uses on other
  /// timelines wait for the task at any sync. After order().
  void begin_with(const Event& first_values, Range range) noexcept;

  /// Empties the list and keeps its capacity.
  void clear() noexcept;
  /// Reserves room for the first uses. Throws std::bad_alloc.
  void reserve();
  /// Drops uses that have ended, and treats their values as present.
  void forget_ended() noexcept;
  /// Adds the uses that have not ended, the latest per timeline; uses on timeline `own` are added
  /// without a check. Throws std::bad_alloc if `uses` has no room.
  void add_under_way(std::vector<Event>& uses, std::uint64_t own = 0) const;
  [[nodiscard]] std::size_t size() const noexcept { return records_.size(); }
  /// The uses recorded for Sync::check (the race check). Throws std::bad_alloc.
  [[nodiscard]] WatchedUses& watched();
  [[nodiscard]] const WatchedUses* watched_if_any() const noexcept { return watched_.get(); }
  /// A copy for a next owner, whose uses wait for every use in the copy.
  [[nodiscard]] Hazards of_next_owner() const;
  /// Marks the records as a former owner's.
  void be_former() noexcept;

 private:
  /// A write of the same bytes by the same timeline, which succeeded or will have succeeded before
  /// `next` runs.
  [[nodiscard]] static bool is_superseded(const Record& record, const Next& next) noexcept;
  [[nodiscard]] Like look_plainly(const Next& next, std::size_t parts) noexcept;
  void make_room(std::size_t uses);
  /// There is room for the record.
  void add(const Event& event, const Next& next, bool alone) noexcept {
    records_.emplace_back(event, next.range, next.disturbances, writes(next.use), false, true,
                          alone);
  }
  void renew(const Range& range, const Event& event) noexcept;

  std::vector<Record> records_;
  std::shared_ptr<WatchedUses> watched_;  // null: no use so far; not shared
};

}  // namespace heddle::rt
