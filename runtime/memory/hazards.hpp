// Hazards: which uses of a memory a next use comes after: read after write, write after read and
// write after write, by ranges of bytes, between the timelines of devices. On one timeline tasks
// run in order anyway. The lock that guards a memory's owner guards its hazards.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "heddle/event.hpp"
#include "runtime/memory/range.hpp"

namespace heddle::sched {
struct TaskNote;
}

namespace heddle::rt {

class WatchedUses;

/// How an event went, asked by heddle itself: a failure is still to be seen by somebody (S10).
[[nodiscard]] bool ended_well(const Event& event) noexcept;
[[nodiscard]] bool ended_badly(const Event& event) noexcept;

class Hazards {
 public:
  /// A use that is about to take a ticket.
  struct Next {
    std::uint64_t timeline;
    std::uint64_t disturbances;  ///< of that timeline's device, see sched::disturbances()
    Range range;
    Use use;
    bool automatic;         ///< it comes after uses of its own owner, too
    bool accepted = false;  ///< where values are missing it comes after them, and is skipped
  };
  /// A use of the memory that matters to later ones.
  struct Record {
    Event event;
    Range range;
    std::uint64_t disturbances;
    bool writes;
    bool former;  ///< of a former owner, or the first values
    bool heeded;  ///< what it should have written is not there if it ended badly
    bool alone;   ///< it may end badly, and its device go on
  };

  /// Notes what `next` comes after. A write that ended badly, whose values it would read: then it
  /// cannot be, unless it was accepted. The caller keeps the lock until note(), which it may call
  /// `uses` times. Throws std::bad_alloc.
  [[nodiscard]] std::optional<Event> order(const Next& next, std::size_t uses,
                                           sched::TaskNote& note);
  /// `next` has its ticket, and its device was disturbed meanwhile: notes the writes on its own
  /// timeline that order() took for granted. What note() then keeps is taken for granted by nobody:
  /// no later use finds the disturbances of `next`. Throws std::bad_alloc.
  void doubt(const Next& next, sched::TaskNote& note) const;
  /// A write that ended badly, whose values such a use would read. None: there is none so far.
  [[nodiscard]] std::optional<Event> lacks(const Range& range, Use use) const noexcept;
  /// Where order() has nothing to say: the record that is to be this use from then on, or null for
  /// one more. nullopt: it has. `parts`: uses that may be one more record each; 0: none may.
  [[nodiscard, gnu::always_inline]] std::optional<Record*> plain(const Next& next,
                                                                 std::size_t parts) noexcept {
    // The way of most: what is read again and again by one timeline.
    if (next.use == Use::read && records_.size() == 1) [[likely]] {
      Record& only = records_.front();
      if (!only.former && !only.writes && only.range == next.range &&
          only.event.device_id() == next.timeline)
        return &only;
    }
    // Or changed again and again, and handed over each time.
    if (next.use == Use::change && records_.size() == 1 && is_superseded(records_.front(), next))
      return &records_.front();
    // Or overwritten, of new memory that nothing but tasks of that timeline used before.
    if (next.use == Use::overwrite && parts == 1 && records_.size() < records_.capacity()) {
      const bool is_new = records_.empty() || (records_.size() == 1 && records_.front().former &&
                                               !records_.front().heeded &&
                                               records_.front().event.device_id() == next.timeline);
      if (is_new) [[likely]]
        return nullptr;
    }
    return look_plainly(next, parts);
  }
  /// Instead of note(), where that was its answer.
  void note_plainly(Record* like, const Event& event, const Next& next, bool alone) noexcept;
  /// That use was accepted; on its timeline it is the last so far.
  void note(const Event& event, const Next& next, bool alone) noexcept;
  /// Uses of the memory's bytes come after these, whatever the order is: of who had them before.
  /// Of those that have not ended; of timeline `own` all, without asking.
  void begin_after(std::span<const Event> uses, Range range, std::uint64_t own = 0);
  /// Uses on other timelines come after this one, which gives the memory its first values however
  /// it ends, whatever the order is. order() was asked before.
  void begin_with(const Event& first_values, Range range) noexcept;

  /// As if it was new, but for its room.
  void clear() noexcept;
  /// Has room for the first uses. Throws std::bad_alloc.
  void reserve();
  /// What has ended is nothing to come after, and what it should have left is there.
  void forget_ended() noexcept;
  /// Adds those that have not ended, the latest of each timeline; of timeline `own` without asking.
  /// Throws std::bad_alloc where there is no room.
  void add_under_way(std::vector<Event>& uses, std::uint64_t own = 0) const;
  [[nodiscard]] std::size_t size() const noexcept { return records_.size(); }
  /// What Sync::check remembers beside. Throws std::bad_alloc.
  [[nodiscard]] WatchedUses& watched();
  [[nodiscard]] const WatchedUses* watched_if_any() const noexcept { return watched_.get(); }
  /// What a next owner finds, whose uses come after them all.
  [[nodiscard]] Hazards of_next_owner() const;
  /// They become those of a former owner.
  void be_former() noexcept;

 private:
  /// A write of the same bytes by the same timeline, which ended well or will before `next`.
  [[nodiscard]] static bool is_superseded(const Record& record, const Next& next) noexcept;
  [[nodiscard]] std::optional<Record*> look_plainly(const Next& next, std::size_t parts) noexcept;
  void make_room(std::size_t uses);
  void renew(const Range& range, const Event& event) noexcept;

  std::vector<Record> records_;
  std::shared_ptr<WatchedUses> watched_;  // null: nothing so far; its only owner
};

}  // namespace heddle::rt
