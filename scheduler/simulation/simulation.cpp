// The public side of simulations.
#include "heddle/simulation.hpp"

#include <fmt/format.h>

#include "scheduler/device/hooks.hpp"
#include "scheduler/device/timeline.hpp"
#include "scheduler/simulation/simulator.hpp"

namespace heddle {
namespace {

std::shared_ptr<sched::Simulator> make_simulator(const SimulationOptions& options) {
  if (sched::hooks() != nullptr) {
    throw Error(ErrorCode::failed_precondition,
                "this thread has a simulation already; end that one first, or use another thread");
  }
  if (options.width == 0 || options.width > sched::width_max) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("SimulationOptions::width is {} (expected 1 to {} parts of a task that "
                            "have begun at once)",
                            options.width, sched::width_max));
  }
  return std::make_shared<sched::Simulator>(options);
}

}  // namespace

std::string_view name(SimulationFault fault) noexcept {
  switch (fault) {
    case SimulationFault::task_throws:
      return "task_throws";
    case SimulationFault::task_stalls:
      return "task_stalls";
    case SimulationFault::thread_fails:
      return "thread_fails";
    case SimulationFault::allocation_fails:
      return "allocation_fails";
    case SimulationFault::clock_jumps:
      return "clock_jumps";
    case SimulationFault::wake_delayed:
      return "wake_delayed";
    case SimulationFault::queue_full:
      return "queue_full";
    case SimulationFault::producer_stops:
      return "producer_stops";
    case SimulationFault::signal_late:
      return "signal_late";
    case SimulationFault::signal_fails:
      break;
  }
  return "signal_fails";
}

Simulation::Simulation(SimulationOptions options)
    : simulator_(make_simulator(options)),
      scheduler_({.name = "simulation", .width = options.width, .oversubscribed = true},
                 simulator_) {}

Simulation::~Simulation() {
  simulator_->end_faults();
  static_cast<void>(scheduler_.shutdown(std::chrono::nanoseconds(0)));
  simulator_->end();
}

Scheduler& Simulation::scheduler() noexcept { return scheduler_; }
void Simulation::host(std::string name, std::function<void()> body) {
  simulator_->add_host(std::move(name), std::move(body));
}
void Simulation::signal_later(const sched::ExternalTimeline& timeline, const Event& event) {
  simulator_->signal_later(timeline, event);
}
SimulationReport Simulation::run() { return simulator_->run(); }
Simulation::Clock::time_point Simulation::now() const noexcept { return simulator_->now(); }
void Simulation::sleep_for(std::chrono::nanoseconds time) {
  simulator_->sleep_until(sched::deadline_after(time));
}
void Simulation::yield() { simulator_->yield(); }
std::uint64_t Simulation::random(std::uint64_t bound) noexcept { return simulator_->draw(bound); }
void Simulation::fail(std::string why) { simulator_->fail(why); }

}  // namespace heddle
