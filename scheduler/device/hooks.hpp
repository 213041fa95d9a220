// Hooks: what a simulation decides in the place of time, memory, threads and chance, on the thread
// that it runs on (S18). Elsewhere there are none, and what asks for them is off the fast paths:
// simulated devices never take those.
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
  /// In the place of the calling thread's number: hosts of a simulation share a thread.
  [[nodiscard]] virtual std::uint64_t producer() noexcept = 0;
  /// Others may go on here, as between any two accesses of another thread. Under no lock.
  virtual void point() noexcept = 0;
  /// As point(), between taking a ticket and publishing its task.
  virtual void point_in_submit() noexcept = 0;
  /// Others go on; for threads that have to look again and again. false: nobody will.
  [[nodiscard]] virtual bool pass() noexcept = 0;
  /// Memory is about to be asked for, by code that has to do without: may throw std::bad_alloc.
  virtual void before_allocation() = 0;
  /// Whether to take a queue for full.
  [[nodiscard]] virtual bool queue_full() noexcept = 0;
  /// A device is about to be opened: may throw what a thread that cannot start throws.
  virtual void before_open(const std::string& name) = 0;
  /// The consumer begins a task: not ok fails it as if it had thrown.
  [[nodiscard]] virtual Status begin_task(DeviceCore& device, std::uint64_t ticket,
                                          bool may_fail) noexcept = 0;
  /// The task of begin_task() has ended.
  virtual void end_task(DeviceCore& device, std::uint64_t ticket) noexcept = 0;
  /// A number below `bound`, which is at least 1.
  [[nodiscard]] virtual std::uint64_t draw(std::uint64_t bound) noexcept = 0;
  /// A host waits. `stopped`: nobody will end this.
  [[nodiscard]] virtual Waited wait(const Event& event,
                                    std::optional<Clock::time_point> deadline) noexcept = 0;

 protected:
  ~Hooks() = default;
};

/// The calling thread's hooks; null when it simulates nothing.
[[nodiscard]] Hooks* hooks() noexcept;
void set_hooks(Hooks* hooks) noexcept;

/// The time, simulated or not.
[[nodiscard]] Event::Clock::time_point now() noexcept;
/// See Hooks.
void simulated_point() noexcept;
void before_allocation();

}  // namespace heddle::sched
