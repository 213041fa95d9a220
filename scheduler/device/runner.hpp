// Runner: what runs devices that have no thread of their own: the threads that submit (inline), a
// pool's workers, the host's poll(), a simulation. A device's consumer takes turns on the threads
// that its runner finds for it. Any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "heddle/scheduler.hpp"

namespace heddle::sched {

class Fiber;

class Runner {
 public:
  using Clock = Event::Clock;
  using Deadline = std::optional<Clock::time_point>;

  Runner() = default;
  virtual ~Runner() = default;
  Runner(const Runner&) = delete;
  Runner& operator=(const Runner&) = delete;

  /// `device` wants a turn, and nobody else will see to it.
  virtual void run(DeviceCore& device) noexcept = 0;
  /// `device` should look at its queue; from the callback of an event, which holds up others.
  virtual void look_later(DeviceCore& device) noexcept = 0;
  /// A suspended task may go on: its fiber was unparked by the caller.
  virtual void resume(std::shared_ptr<Fiber> fiber) noexcept = 0;

  /// Calls back once `when` has come. The number takes it back; 0: this runner keeps no time, and a
  /// thread that waits has to sleep. Throws std::bad_alloc.
  virtual std::uint64_t call_at(Clock::time_point when, std::function<void()> callback) = 0;
  virtual void uncall(Clock::time_point when, std::uint64_t call) noexcept = 0;

  /// A thread that runs no task waits for an event of a device of this runner. nullopt: it may
  /// sleep, others run the device; else whether the event is done (false: the deadline passed).
  virtual std::optional<bool> run_until(const Event& event, Deadline deadline) noexcept = 0;
};

/// A runner, and what ends its threads with its last holder: each device, until it has ended, and
/// the scheduler.
struct OwnedRunner {
  std::shared_ptr<Runner> runner;  ///< null: the device has a thread of its own
  std::shared_ptr<void> owner;
};

/// Runs devices on the thread that submits.
[[nodiscard]] std::shared_ptr<Runner> inline_runner() noexcept;

/// After `fiber` was left: its function ended, or suspended, and then belongs to the thread that
/// unparks it.
void leave_fiber(std::shared_ptr<Fiber> fiber, bool ended) noexcept;

}  // namespace heddle::sched
