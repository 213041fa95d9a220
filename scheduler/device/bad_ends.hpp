// BadEnds: how tickets ended, when not well, as runs of equal ends. Also those of timelines that
// were closed, for events that outlive them. BadEnds is its owner's to guard; closed ones: any
// thread.
#pragma once

#include <boost/container/small_vector.hpp>

#include <cstdint>
#include <string>
#include <utility>

#include "heddle/status.hpp"

namespace heddle::sched {

/// How a run of tickets ended, when not well.
enum class End : std::uint8_t { failed, skipped, cancelled };

class BadEnds {
 public:
  /// Tickets ascend. Without memory the last run is stretched: a bad end is never taken for a good
  /// one. `alone`: it poisons nothing, and is skipped, if so, for a failure elsewhere.
  void add(std::uint64_t from, std::uint64_t to, End end, const Status& status,
           bool alone) noexcept;
  [[nodiscard]] Status of(std::uint64_t ticket) const noexcept;
  [[nodiscard]] bool empty() const noexcept { return runs_.empty(); }

  // Failures are to be seen by somebody, or told: those of tasks that failed, and of those that
  // were skipped alone, for what they came after. Others were skipped for one of these.

  /// Somebody asked how `ticket` ended.
  void see(std::uint64_t ticket) noexcept;
  /// Somebody was given this failure of the whole device.
  void see(const Status& failure) noexcept;
  /// Whether `ticket` failed and nobody has seen it; counts as seen from here on.
  [[nodiscard]] Status take_unseen(std::uint64_t ticket) noexcept;
  struct Unseen {
    Status one;  ///< the one which poisoned the device, else the first
    std::uint64_t count = 0;
  };
  /// The same for all tickets.
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
  std::size_t first_failed_ = ~std::size_t{0};  // the run whose text is kept however many follow
  /// By ticket. The first needs no memory, so that there always is one to stretch.
  boost::container::small_vector<Run, 1> runs_;
};

/// Keeps the bad ends of a timeline that was closed; the latest tuning::closed_timelines_max of
/// them.
void bury(std::uint64_t timeline, BadEnds ends) noexcept;
/// How a ticket of a closed timeline ended.
[[nodiscard]] Status outcome_of_closed(std::uint64_t timeline, std::uint64_t ticket) noexcept;

}  // namespace heddle::sched
