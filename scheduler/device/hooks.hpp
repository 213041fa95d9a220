// Hooks: a simulation's replacement for time, memory, threads and chance, on the thread of the
// simulation (S18). Other threads have no hooks, and the code that asks for hooks is off the fast
// paths: simulated devices never take fast paths.
#pragma once

#include <cstdint>
#include <optional>

#include "heddle/scheduler.hpp"
#include "scheduler/device/waited.hpp"

namespace heddle::sched {

class Hooks {
 public:
  using Clock = Event::Clock;

  Hooks() = default;
  Hooks(const Hooks&) = delete;
  Hooks& operator=(const Hooks&) = delete;

  [[nodiscard]] virtual Clock::time_point now() const noexcept = 0;
  /// Replaces the calling thread's number: hosts of a simulation share a thread.
  [[nodiscard]] virtual std::uint64_t producer() noexcept = 0;
  /// Other simulated threads may continue here, as between any two memory accesses. Called without
  /// a lock.
  virtual void point() noexcept = 0;
  /// point() between taking a ticket and publishing its task.
  virtual void point_in_submit() noexcept = 0;
  /// Other simulated threads continue; for threads that poll. false: no other thread can continue.
  [[nodiscard]] virtual bool pass() noexcept = 0;
  /// Code that can do without memory is about to allocate: may throw std::bad_alloc.
  virtual void before_allocation() = 0;
  /// Returns whether to treat a queue as full.
  [[nodiscard]] virtual bool queue_full() noexcept = 0;
  /// A device is about to be opened: may throw the error of a thread that cannot start.
  virtual void before_open(const std::string& name) = 0;
  /// The consumer begins a task: a failed status fails the task as if it had thrown.
  [[nodiscard]] virtual Status begin_task(DeviceCore& device, std::uint64_t ticket,
                                          bool may_fail) noexcept = 0;
  /// The task of begin_task() has ended.
  virtual void end_task(DeviceCore& device, std::uint64_t ticket) noexcept = 0;
  /// A number below `bound`, which is at least 1.
  [[nodiscard]] virtual std::uint64_t draw(std::uint64_t bound) noexcept = 0;
  /// A host waits. `stopped`: no thread will end this wait.
  [[nodiscard]] virtual Waited wait(const Event& event,
                                    std::optional<Clock::time_point> deadline) noexcept = 0;

 protected:
  ~Hooks() = default;
};

/// The calling thread's hooks; null outside simulations.
[[nodiscard]] Hooks* hooks() noexcept;
void set_hooks(Hooks* hooks) noexcept;

/// The time, simulated or real.
[[nodiscard]] Event::Clock::time_point now() noexcept;
/// See Hooks.
void simulated_point() noexcept;
void before_allocation();

}  // namespace heddle::sched
