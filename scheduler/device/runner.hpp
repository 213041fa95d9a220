// Runner: runs devices that have no thread of their own: on the threads that submit (inline), on a
// pool's workers, in the host's poll(), or in a simulation. A device's consumer takes turns on the
// threads that its runner finds. Any thread.
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

  /// `device` needs a turn, and no other thread will run it.
  virtual void run(DeviceCore& device) noexcept = 0;
  /// `device` should look at its queue. Called from the callback of an event, which must not delay
  /// other waiters.
  virtual void look_later(DeviceCore& device) noexcept = 0;
  /// A suspended task may continue: the caller unparked its fiber.
  virtual void resume(std::shared_ptr<Fiber> fiber) noexcept = 0;

  /// Calls `callback` at `when`. The returned number cancels the call; 0: this runner has no timer,
  /// and a waiting thread has to sleep. Throws std::bad_alloc.
  virtual std::uint64_t call_at(Clock::time_point when, std::function<void()> callback) = 0;
  virtual void uncall(Clock::time_point when, std::uint64_t call) noexcept = 0;

  /// A thread that runs no task waits for an event of a device of this runner. nullopt: the thread
  /// may sleep, because other threads run the device; else whether the event is done (false: the
  /// deadline passed).
  virtual std::optional<bool> run_until(const Event& event, Deadline deadline) noexcept = 0;
};

/// A runner with an owner whose last release ends the runner's threads. Held by each device until
/// the device has ended, and by the scheduler.
struct OwnedRunner {
  std::shared_ptr<Runner> runner;  ///< null: the device has its own thread
  std::shared_ptr<void> owner;
};

/// Runs devices on the thread that submits.
[[nodiscard]] std::shared_ptr<Runner> inline_runner() noexcept;

/// Called after leaving `fiber`: the function of the fiber ended, or the fiber is suspended, and
/// then belongs to the unparking thread.
void leave_fiber(std::shared_ptr<Fiber> fiber, bool ended) noexcept;

}  // namespace heddle::sched
