// Simulation: a scheduler on one thread, where one seed decides every interleaving (S18). The
// devices run the shipped code; hosts are functions of the embedder's. What happens for a seed
// happens again for it, on any machine, under any debugger. Everything here belongs to the thread
// that made the simulation, and so do its devices.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "heddle/scheduler.hpp"

namespace heddle::sched {
class Simulator;
}  // namespace heddle::sched

#pragma GCC visibility push(default)
namespace heddle {

/// How the simulation chooses, among the hosts and devices that can go on, the next one.
enum class SimulationPolicy : std::uint8_t {
  uniform,  ///< any of them, each as likely
  /// The one of the highest priority. Priorities are drawn, and drop at a few points in the run:
  /// probabilistic concurrency testing (Burckhardt, Kothari, Musuvathi, Nagarakatte, ASPLOS 2010).
  pct,
  subset,  ///< one of a few, which are drawn anew now and then: the others stand still for long
};

/// Faults that the simulation injects, each with some probability, in some of the seeds.
enum class SimulationFault : std::uint8_t {
  task_throws,
  task_stalls,       ///< a task takes long
  thread_fails,      ///< a device cannot be opened
  allocation_fails,  ///< where heddle does without memory, or refuses
  clock_jumps,       ///< the clock jumps ahead, past deadlines
  wake_delayed,      ///< a sleeper wakes late
  queue_full,        ///< a queue counts as full that is not
  producer_stops,    ///< between taking a ticket and publishing its task
  signal_late,       ///< signal_later() comes late
  signal_fails,      ///< signal_later() brings a failure
};
inline constexpr std::size_t simulation_faults = 10;
[[nodiscard]] std::string_view name(SimulationFault fault) noexcept;

struct SimulationOptions {
  std::uint64_t seed = 1;
  std::optional<SimulationPolicy> policy{};  ///< unset: the seed decides
  /// Whether each SimulationFault may happen; a run has about a third of those.
  std::array<bool, simulation_faults> faults = {true, true, true, true, true,
                                                true, true, true, true, true};
  /// Faults happen in the first of the steps only; after that everything has to end.
  std::uint64_t fault_steps = 2000;
  /// A run that takes more steps has failed.
  std::uint64_t steps_max = 1'000'000;
  /// A bug, planted to see whether a graph's checks notice it: about one in so many times that a
  /// device gets something to do, it is not told. 0: no bug.
  std::uint64_t lost_turns_one_in = 0;
  /// How many parts of a task (TaskDevice::submit_parallel()) or of a kernel have begun at once, 1
  /// to 64: as many processors would run them.
  unsigned width = 4;
  /// Called with a line for each step and each fault: for looking into one seed.
  std::function<void(const std::string&)> on_step{};
};

struct SimulationReport {
  /// ok; or the first thing that broke, with the seed: a task out of its order or run twice, a wait
  /// that nothing ends, an end unaccounted for, a queue above its size, what fail() was told.
  Status status;
  std::uint64_t seed = 0;
  std::uint64_t steps = 0;
  std::uint64_t hash = 0;  ///< a hash of all that happened: equal for equal seeds
  std::chrono::nanoseconds simulated{0};
  std::array<std::uint64_t, simulation_faults> faults{};  ///< how often each happened
};

class Simulation {
 public:
  using Clock = Event::Clock;

  /// From here on the calling thread is in simulated time: its waits let the simulation go on.
  /// Throws Error: failed_precondition when it has a simulation already, invalid_argument for a
  /// width that is none.
  explicit Simulation(SimulationOptions options = {});
  /// Shuts the devices down. Waits that nothing ends come back as cancelled, and their hosts and
  /// tasks go on from there once more.
  ~Simulation();
  Simulation(const Simulation&) = delete;
  Simulation& operator=(const Simulation&) = delete;

  /// Its devices are simulated, whatever mode their options name. A backend's too, as
  /// BackendOptions::scheduler.
  [[nodiscard]] Scheduler& scheduler() noexcept;
  /// Adds a host: `body` runs in run(), on a stack of its own, beside the others. What it throws
  /// fails the simulation.
  void host(std::string name, std::function<void()> body);
  /// Signals `event`, of that timeline, at some later time; by faults, much later or as failed.
  void signal_later(const sched::ExternalTimeline& timeline, const Event& event);

  /// Goes on until nobody can: all hosts and tasks have ended, or wait for what will not come.
  SimulationReport run();

  // Hosts and tasks may call the functions below; so may the thread outside run(), for which time
  // goes on only while it waits.

  [[nodiscard]] Clock::time_point now() const noexcept;
  void sleep_for(std::chrono::nanoseconds time);
  /// Lets other hosts and tasks go on.
  void yield();
  /// A number below `bound` (at least 1), drawn from the seed.
  [[nodiscard]] std::uint64_t random(std::uint64_t bound) noexcept;
  /// Makes the report say that something is wrong with the embedder's own graph.
  void fail(std::string why);

 private:
  std::shared_ptr<sched::Simulator> simulator_;
  Scheduler scheduler_;
};

}  // namespace heddle
#pragma GCC visibility pop
