// BadEnds: how tickets ended, when not well, as runs of equal ends. Also those of timelines that
// were closed, for events that outlive them. BadEnds is its owner's to guard; closed ones: any
// thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "heddle/status.hpp"

namespace heddle::sched {

/// How a run of tickets ended, when not well.
enum class End : std::uint8_t { failed, skipped, cancelled };

struct Outcome {
  Status status;
  bool contained = false;  ///< the failure was kept to its task
};

class BadEnds {
 public:
  /// Tickets ascend. Without memory the last run is stretched: a bad end is never taken for a good
  /// one.
  void add(std::uint64_t from, std::uint64_t to, End end, const Status& status,
           bool contained) noexcept;
  [[nodiscard]] Outcome of(std::uint64_t ticket) const noexcept;
  [[nodiscard]] bool empty() const noexcept { return runs_.empty(); }

 private:
  struct Run {
    std::uint64_t from, to;
    End end;
    bool contained;
    Status status;
  };
  std::vector<Run> runs_;  // by ticket
};

/// Keeps the bad ends of a timeline that was closed; the latest tuning::closed_timelines_max of
/// them.
void bury(std::uint64_t timeline, BadEnds ends) noexcept;
/// How a ticket of a closed timeline ended.
[[nodiscard]] Outcome outcome_of_closed(std::uint64_t timeline, std::uint64_t ticket) noexcept;

}  // namespace heddle::sched
