// BadEnds: how tickets failed, were skipped or cancelled, as runs of equal ends. Also keeps the bad
// ends of closed timelines, for events that outlive a timeline. The owner guards a BadEnds; the
// functions for closed timelines: any thread.
#pragma once

#include <boost/container/small_vector.hpp>

#include <cstdint>
#include <string>
#include <utility>

#include "heddle/status.hpp"

namespace heddle::sched {

/// The end of a run of tickets that did not end well.
enum class End : std::uint8_t { failed, skipped, cancelled };

class BadEnds {
 public:
  /// Tickets ascend. Without memory, add() extends the last run: a bad end is never reported as a
  /// good end. `alone`: a failure does not poison the device; a skip is due to a failure elsewhere.
  void add(std::uint64_t from, std::uint64_t to, End end, const Status& status,
           bool alone) noexcept;
  [[nodiscard]] Status of(std::uint64_t ticket) const noexcept;
  [[nodiscard]] bool empty() const noexcept { return runs_.empty(); }

  // A failure is owed to the user: a caller has seen the status, or the log reports it. Owed are
  // failed tasks, and tasks skipped alone because of a predecessor. Other skips follow from a
  // failure in this list.

  /// A caller asked how `ticket` ended.
  void see(std::uint64_t ticket) noexcept;
  /// A caller received `failure` as the failure of the whole device.
  void see(const Status& failure) noexcept;
  /// Returns the failure of `ticket` if no caller has seen the failure, and marks it as seen.
  [[nodiscard]] Status take_unseen(std::uint64_t ticket) noexcept;
  struct Unseen {
    Status one;  ///< the poisoning failure, else the first
    std::uint64_t count = 0;
  };
  /// take_unseen() for all tickets.
  [[nodiscard]] Unseen take_unseen() noexcept;

 private:
  struct Run {
    std::uint64_t from, to;
    End end;
    bool alone;
    Status status;
    bool seen = false;
    [[nodiscard]] bool poisons() const noexcept { return end == End::failed && !alone; }
    [[nodiscard]] bool owed() const noexcept {
      return !seen && (end == End::failed || (end == End::skipped && alone));
    }
  };
  [[nodiscard]] const Run* find(std::uint64_t ticket) const noexcept;
  [[nodiscard]] Run* find(std::uint64_t ticket) noexcept {
    return const_cast<Run*>(std::as_const(*this).find(ticket));
  }
  std::size_t first_failed_ = ~std::size_t{0};  // the run with the permanent text
  /// Sorted by ticket. The first run needs no memory, so that add() always has a run to extend.
  boost::container::small_vector<Run, 1> runs_;
};

/// Keeps the bad ends of a closed timeline; the latest tuning::closed_timelines_max timelines are
/// kept.
void bury(std::uint64_t timeline, BadEnds ends) noexcept;
/// How a ticket of a closed timeline ended.
[[nodiscard]] Status outcome_of_closed(std::uint64_t timeline, std::uint64_t ticket) noexcept;

}  // namespace heddle::sched
