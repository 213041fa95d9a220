// Flight: a single-flight compile. An entry that one caller of an executor makes, and the callers
// waiting for the entry. Any thread.
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

/// Identity of the running code: the task, if there is one, otherwise the thread. A task may move
/// between threads.
struct Runner {
  std::uint64_t thread = 0, timeline = 0, ticket = 0;
  [[nodiscard]] static Runner here();
  friend auto operator<=>(const Runner&, const Runner&) = default;
};

class Flight;

/// A wait of the calling runner for a flight, or for another runner's end, during the object's
/// life. The constructor throws failed_precondition for a cycle: the awaited runner waits, directly
/// or through further runners, for the caller.
class FlightWait {
 public:
  explicit FlightWait(const Flight& flight);
  /// Waits for the task of an asynchronous compile.
  explicit FlightWait(const Event& end);
  FlightWait(const FlightWait&) = delete;
  FlightWait& operator=(const FlightWait&) = delete;
  ~FlightWait();

 private:
  struct Waited {
    const Flight* flight;  // null: `runner` is set
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

  /// land() or fail() is called once, by the maker.
  void land(std::shared_ptr<Entry> made) noexcept;
  void fail(std::exception_ptr why) noexcept;
  /// Waits for the landing. Throws the maker's failure; failed_precondition for a cycle of waits,
  /// see FlightWait.
  [[nodiscard]] Entry& wait() const;

 private:
  friend class FlightWait;

  const Runner maker_ = Runner::here();
  mutable sched::ExternalTimeline timeline_{"executor"};
  const Event landed_ = timeline_.next();
  std::exception_ptr failure_;  // both are set on landing
  std::shared_ptr<Entry> entry_;
};

}  // namespace heddle::rt
