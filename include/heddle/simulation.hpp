// Simulation: a scheduler on one thread, in which a seed determines every interleaving (S18). The
// devices run the shipped code; hosts are functions of the embedder. A seed reproduces the same run
// on any machine, under any debugger. Only the thread that made the simulation may use the
// simulation and its devices.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "heddle/duration.hpp"
#include "heddle/scheduler.hpp"

namespace heddle::sched {
class Simulator;
}  // namespace heddle::sched

#pragma GCC visibility push(default)
namespace heddle {

/// How the simulation chooses the next host or device among those that can continue.
enum class SimulationPolicy : std::uint8_t {
  uniform,  ///< any of them, with equal probability
  /// The host or device with the highest priority. Priorities are drawn at random, and drop at a
  /// few points in the run: probabilistic concurrency testing (Burckhardt, Kothari, Musuvathi,
  /// Nagarakatte, ASPLOS 2010).
  pct,
  subset,  ///< one of a small subset, redrawn now and then: the others do not run for long
};

/// Faults that the simulation injects, with some probability, in some of the seeds.
enum class SimulationFault : std::uint8_t {
  task_throws,
  task_stalls,       ///< a task takes long
  thread_fails,      ///< a device cannot be opened
  allocation_fails,  ///< an allocation fails where heddle continues without the memory, or refuses
  clock_jumps,       ///< the clock jumps ahead, past deadlines
  wake_delayed,      ///< a sleeper wakes late
  queue_full,        ///< a queue counts as full although it is not
  producer_stops,    ///< a producer stops between taking a ticket and publishing its task
  signal_late,       ///< signal_later() signals late
  signal_fails,      ///< signal_later() signals a failure
};
inline constexpr std::size_t simulation_faults = 10;
[[nodiscard]] std::string_view name(SimulationFault fault) noexcept;

struct SimulationOptions {
  std::uint64_t seed = 1;
  std::optional<SimulationPolicy> policy{};  ///< unset: the seed decides
  /// The faults that may happen, by SimulationFault; a run has about a third of the allowed faults.
  std::array<bool, simulation_faults> faults = {true, true, true, true, true,
                                                true, true, true, true, true};
  /// Faults happen in the first steps of a run only; afterwards everything has to end.
  std::uint64_t fault_steps = 2000;
  /// A run that takes more steps counts as failed.
  std::uint64_t steps_max = 1'000'000;
  /// A planted bug, to test whether the checks of a task graph notice it: one in
  /// `lost_turns_one_in` notifications that a device has work is dropped, on average. 0: no bug.
  std::uint64_t lost_turns_one_in = 0;
  /// The number of parts of a task (TaskDevice::submit_parallel()) or of a kernel that run at the
  /// same time, 1 to 64, as if there were that many processors.
  unsigned width = 4;
  /// Called with a line for each step and each fault: for debugging one seed.
  std::function<void(const std::string&)> on_step{};
};

struct SimulationReport {
  /// ok, or the first violation, with the seed: a task out of order or run twice, a wait that
  /// cannot end, an end unaccounted for, a queue above its size, or the argument of fail().
  Status status;
  std::uint64_t seed = 0;
  std::uint64_t steps = 0;
  std::uint64_t hash = 0;  ///< a hash of the whole run: equal for equal seeds
  std::chrono::nanoseconds simulated{0};
  std::array<std::uint64_t, simulation_faults> faults{};  ///< how often each fault happened
};

class Simulation {
 public:
  using Clock = Event::Clock;

  /// Puts the calling thread in simulated time: its waits advance the simulation. Throws Error:
  /// failed_precondition if the thread has a simulation already, invalid_argument for an invalid
  /// width.
  explicit Simulation(SimulationOptions options = {});
  /// Shuts the devices down. Waits that cannot end return as cancelled, and their hosts and tasks
  /// continue from there once more.
  ~Simulation();
  Simulation(const Simulation&) = delete;
  Simulation& operator=(const Simulation&) = delete;

  /// A scheduler with simulated devices, whatever mode their options request; also for backends, by
  /// BackendOptions::scheduler.
  [[nodiscard]] Scheduler& scheduler() noexcept;
  /// Adds a host: run() executes `body` on a separate stack, concurrently with other hosts. An
  /// exception of `body` fails the simulation.
  void host(std::string name, std::function<void()> body);
  /// Signals `event` of `timeline` at some later time; faults delay the signal further or turn it
  /// into a failure.
  void signal_later(const sched::ExternalTimeline& timeline, const Event& event);

  /// Runs until no host or task can continue: every host and task has ended, or waits for an event
  /// that will not come.
  SimulationReport run();

  // Hosts and tasks may call the functions below, and so may the thread outside run(), for which
  // time advances only while it waits.

  [[nodiscard]] Clock::time_point now() const noexcept;
  void sleep_for(std::chrono::nanoseconds time);
  /// Lets other hosts and tasks continue.
  void yield();
  /// A number below `bound` (at least 1), drawn from the seed.
  [[nodiscard]] std::uint64_t random(std::uint64_t bound) noexcept;
  /// Makes the report say that the embedder's own task graph is wrong.
  void fail(std::string why);

 private:
  std::shared_ptr<sched::Simulator> simulator_;
  Scheduler scheduler_;
};

}  // namespace heddle
#pragma GCC visibility pop
