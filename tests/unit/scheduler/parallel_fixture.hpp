// What tests of tasks in parts share: schedulers of some width, and parts that are noted down.
#pragma once

#include <algorithm>
#include <cstddef>
#include <mutex>
#include <utility>
#include <vector>

#include "heddle/scheduler.hpp"
#include "tests/support/before_long.hpp"

namespace heddle {

/// So wide, whatever the machine, with a pool that has a worker for each.
inline SchedulerOptions of_width(unsigned width) {
  SchedulerOptions options;
  options.name = "host";
  options.width = width;
  options.oversubscribed = true;
  options.workers = width;
  return options;
}

inline sched::DeviceOptions of_mode(sched::Mode mode, std::string name = "work") {
  sched::DeviceOptions options;
  options.name = std::move(name);
  options.mode = mode;
  return options;
}

inline sched::ParallelOptions by(std::size_t grain) {
  sched::ParallelOptions options;
  options.grain = grain;
  return options;
}

/// Ranges, as parts get them. Any thread.
class Ranges {
 public:
  using Range = std::pair<std::size_t, std::size_t>;
  void add(std::size_t from, std::size_t to) {
    const std::lock_guard lock(mutex_);
    ranges_.emplace_back(from, to);
  }
  [[nodiscard]] std::size_t size() {
    const std::lock_guard lock(mutex_);
    return ranges_.size();
  }
  /// In the order in which they came; begins again.
  [[nodiscard]] std::vector<Range> take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(ranges_, {});
  }
  [[nodiscard]] std::vector<Range> take_sorted() {
    auto ranges = take();
    std::ranges::sort(ranges);
    return ranges;
  }

 private:
  std::mutex mutex_;
  std::vector<Range> ranges_;
};

/// Whether they make up [0, count), each index in one, none of them empty.
inline bool make_up(const std::vector<Ranges::Range>& sorted, std::size_t count) {
  std::size_t next = 0;
  for (const auto& [from, to] : sorted) {
    if (from != next || to <= from) return false;
    next = to;
  }
  return next == count;
}

}  // namespace heddle
