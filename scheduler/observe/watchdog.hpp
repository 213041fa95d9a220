// Watchdog: a thread that looks at the devices of a scheduler at intervals, and reports devices
// without progress for too long (S17). One owner.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "heddle/scheduler.hpp"

namespace heddle::sched {

/// Finds in successive snapshots the devices whose first task, or its earliest part, has not
/// changed for too long. Has no clock of its own: times are measured between looks. One thread at a
/// time.
class OverdueFinder {
 public:
  using Clock = Event::Clock;

  explicit OverdueFinder(std::chrono::nanoseconds limit) : limit_(limit) {}
  /// Sets `overdue` on overdue devices; returns whether one of them was not overdue at the last
  /// look.
  [[nodiscard]] bool look(std::vector<Snapshot>& devices, Clock::time_point now);

 private:
  struct Seen {
    std::uint64_t ticket = 0;
    Clock::time_point since;
    bool reported = false;
    std::string part{};  // of that task, if it has parts
    Clock::time_point part_since{};
    bool part_reported = false;
  };
  [[nodiscard]] bool is_new(Seen& mine, Snapshot& device, Clock::time_point now) const;

  const std::chrono::nanoseconds limit_;
  std::map<std::uint64_t, Seen> seen_;  // by device
};

class Watchdog {
 public:
  using Look = std::function<std::vector<Snapshot>()>;
  using Report = std::function<void(const std::vector<Snapshot>&)>;

  /// Throws Error(unavailable) when no thread can be started.
  Watchdog(std::string name, std::chrono::nanoseconds limit, Look look, Report report);
  /// Joins the thread, unless the thread itself is the caller.
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

 private:
  struct Watch;

  const std::uint32_t fork_generation_;
  const std::shared_ptr<Watch> watch_;
  std::thread thread_;
};

}  // namespace heddle::sched
