// An entry that an executor makes at the moment, and those who wait for it. Any thread.
#pragma once

#include <compare>
#include <cstdint>
#include <exception>
#include <map>
#include <memory>

#include "heddle/scheduler.hpp"
#include "scheduler/threads/process_mutex.hpp"

namespace heddle::rt {

struct Entry;

/// What runs here: the task, if it is one, else the thread. Tasks may go on on another thread.
struct Runner {
  std::uint64_t thread = 0, timeline = 0, ticket = 0;
  [[nodiscard]] static Runner here();
  friend auto operator<=>(const Runner&, const Runner&) = default;
};

class Flight;

/// While it lives, what runs here waits for a flight, or for another runner's end. Throws
/// failed_precondition where that waits, maybe for others that do, for what this one makes.
class FlightWait {
 public:
  explicit FlightWait(const Flight& flight);
  /// For a task: of a compile that goes on meanwhile.
  explicit FlightWait(const Event& end);
  FlightWait(const FlightWait&) = delete;
  FlightWait& operator=(const FlightWait&) = delete;
  ~FlightWait();

 private:
  struct Waited {
    const Flight* flight;  // null:
    Runner runner;
  };
  explicit FlightWait(const Waited& waited);
  static constinit inline sched::ProcessMutex mutex_;
  static std::map<Runner, Waited>& waiting();

  const Runner me_;
};

class Flight {
 public:
  Flight() = default;
  Flight(const Flight&) = delete;
  Flight& operator=(const Flight&) = delete;

  /// Once, by the one that made it.
  void land(std::shared_ptr<Entry> made) noexcept;
  void fail(std::exception_ptr why) noexcept;
  /// Waits for that. Throws why it failed; failed_precondition where its maker waits, maybe for
  /// others that do, for what the caller makes.
  [[nodiscard]] Entry& wait() const;

 private:
  friend class FlightWait;

  const Runner maker_ = Runner::here();
  mutable sched::ExternalTimeline timeline_{"executor"};
  const Event landed_ = timeline_.next();
  std::exception_ptr failure_;  // these two: once it has landed
  std::shared_ptr<Entry> entry_;
};

}  // namespace heddle::rt
