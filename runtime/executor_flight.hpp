// An entry that an executor makes at the moment, and those who wait for it. Any thread.
#pragma once

#include <compare>
#include <cstdint>
#include <exception>
#include <memory>

#include "heddle/scheduler.hpp"

namespace heddle::rt {

struct Entry;

/// What runs here: the task, if it is one, else the thread. Tasks may go on on another thread.
struct Runner {
  std::uint64_t thread = 0, timeline = 0, ticket = 0;
  [[nodiscard]] static Runner here();
  friend auto operator<=>(const Runner&, const Runner&) = default;
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
  class Waiting;

  const Runner maker_ = Runner::here();
  mutable sched::ExternalTimeline timeline_{"executor"};
  const Event landed_ = timeline_.next();
  std::exception_ptr failure_;  // these two: once it has landed
  std::shared_ptr<Entry> entry_;
};

}  // namespace heddle::rt
