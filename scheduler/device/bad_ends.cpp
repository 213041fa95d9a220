// Runs of bad ends, and the bad ends of closed timelines.
#include "scheduler/device/bad_ends.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <mutex>
#include <tuple>

#include "scheduler/threads/never_destroyed.hpp"
#include "scheduler/threads/process_mutex.hpp"
#include "scheduler/tuning.hpp"

namespace heddle::sched {
namespace {

using Statuses = std::array<Status, static_cast<std::size_t>(ErrorCode::internal) + 1>;

/// Replaces the text of an old failure: a shared status per code.
Status without_text(ErrorCode code) noexcept {
  static NeverDestroyed<const Statuses> statuses([] {
    Statuses made;
    for (std::size_t k = 0; k < made.size(); ++k) {
      made[k] = Status(static_cast<ErrorCode>(k), [] {
        return fmt::format(
            "neither the first failure of its timeline nor of the latest {}; its text "
            "is no longer kept",
            tuning::failure_texts_max);
      });
    }
    return made;
  }());
  return (*statuses)[std::min(static_cast<std::size_t>(code), std::tuple_size_v<Statuses> - 1)];
}

constinit ProcessMutex closed_mutex;

struct Closed {
  std::map<std::uint64_t, BadEnds> timelines;
  std::uint64_t forgotten = 0;  // the latest timeline whose ends were given up
};
/// Called with the lock held. Never destroyed: users query events during exit too.
Closed& closed() noexcept {
  static NeverDestroyed<Closed> all;
  return *all;
}

}  // namespace

void BadEnds::add(std::uint64_t from, std::uint64_t to, End end, const Status& status,
                  bool alone) noexcept {
  if (!runs_.empty() && end != End::failed) {
    Run& last = runs_.back();
    if (last.to + 1 == from && last.end == end && last.alone == alone && last.status == status) {
      last.to = to;
      return;
    }
  }
  try {
    runs_.push_back({from, to, end, alone, status, false});
  } catch (...) {
    if (!runs_.empty()) runs_.back().to = to;
  }
  if (end == End::failed) first_failed_ = std::min(first_failed_, runs_.size() - 1);
  if (runs_.size() <= tuning::failure_texts_max) return;
  const std::size_t old = runs_.size() - 1 - tuning::failure_texts_max;
  if (old != first_failed_) runs_[old].status = without_text(runs_[old].status.code());
}

const BadEnds::Run* BadEnds::find(std::uint64_t ticket) const noexcept {
  const auto at = std::ranges::upper_bound(runs_, ticket, {}, &Run::from);
  if (at == runs_.begin()) return nullptr;
  const Run& run = *std::prev(at);
  return ticket > run.to ? nullptr : &run;
}

Status BadEnds::of(std::uint64_t ticket) const noexcept {
  const Run* const run = find(ticket);
  return run == nullptr ? Status() : run->status;
}

void BadEnds::see(std::uint64_t ticket) noexcept {
  Run* run = find(ticket);
  if (run == nullptr || run->seen) return;
  run->seen = true;
  if (run->end != End::skipped || run->alone) return;
  while (run != runs_.data() && !run->poisons()) --run;
  run->seen = true;
}

void BadEnds::see(const Status& failure) noexcept {
  const auto latest = std::ranges::find_if(runs_.rbegin(), runs_.rend(), &Run::poisons);
  if (latest != runs_.rend() && latest->status == failure) latest->seen = true;
}

Status BadEnds::take_unseen(std::uint64_t ticket) noexcept {
  Run* const run = find(ticket);
  if (run == nullptr || !run->owed()) return {};
  run->seen = true;
  return run->status;
}

BadEnds::Unseen BadEnds::take_unseen() noexcept {
  Unseen unseen;
  for (Run& run : runs_) {
    if (!run.owed()) continue;
    run.seen = true;
    if (unseen.count == 0 || run.poisons()) unseen.one = run.status;
    unseen.count += run.to - run.from + 1;
  }
  return unseen;
}

void bury(std::uint64_t timeline, BadEnds ends) noexcept {
  if (ends.empty()) return;
  const std::lock_guard lock(closed_mutex);
  Closed& all = closed();
  try {
    all.timelines.emplace(timeline, std::move(ends));
  } catch (...) {  // no memory to tell good ends from bad ones
    all.forgotten = std::max(all.forgotten, timeline);
  }
  if (all.timelines.size() <= tuning::closed_timelines_max) return;
  all.forgotten = std::max(all.forgotten, all.timelines.begin()->first);
  all.timelines.erase(all.timelines.begin());
}

Status outcome_of_closed(std::uint64_t timeline, std::uint64_t ticket) noexcept {
  const std::lock_guard lock(closed_mutex);
  Closed& all = closed();
  if (const auto at = all.timelines.find(timeline); at != all.timelines.end())
    return at->second.of(ticket);
  if (timeline > all.forgotten) return {};
  return Status(ErrorCode::unavailable, [&] {
    return fmt::format(
        "how this task ended is no longer known: its device was closed, and {} others that had "
        "failures since",
        tuning::closed_timelines_max);
  });
}

}  // namespace heddle::sched
