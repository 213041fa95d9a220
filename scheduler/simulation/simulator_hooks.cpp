// The simulator's hooks for shipped code, hosts and tasks: waits, points where other actors
// continue, and faults.
#include <fmt/format.h>

#include <utility>

#include "scheduler/device/device_core.hpp"
#include "scheduler/simulation/simulator.hpp"
#include "scheduler/threads/task_context.hpp"
#include "scheduler/threads/thread_number.hpp"
#include "scheduler/tuning.hpp"

namespace heddle::sched {

// Leaving a fiber.

/// True if the current stack is the running actor's own: not a nested stack, and not the loop's.
bool Simulator::on_own_fiber() const noexcept {
  const TaskContext* const task = current_task();
  return running_.fiber != nullptr && (task == nullptr || task->fiber == running_.fiber);
}

void Simulator::leave(bool may_go_on) noexcept {
  running_.may_go_on = may_go_on;
  if (current_task() != nullptr) {
    suspend_task();
  } else {
    running_.fiber->suspend();
  }
}

/// Returns a function that makes the running actor continue; it may be called repeatedly.
std::function<void()> Simulator::waker() {
  return [this, fiber = running_.fiber->shared_from_this()] {
    if (fiber->unpark()) push({.fiber = fiber});
  };
}

/// Waits here until `done()`, which a callback makes true.
template <class Done>
Waited Simulator::wait_for(const Done& done, Deadline deadline) {
  const auto late = [&] { return deadline && now_ >= *deadline; };
  const bool suspends = on_own_fiber();
  bool earlier = false;
  std::uint64_t alarm = 0;
  if (deadline) {
    alarm = timers_.add(*deadline, suspends ? waker() : std::function<void()>([] {}), earlier);
  }
  bool stuck = false;
  while (!done() && !late() && !stuck) {
    if (suspends) {
      leave(false);
      stuck = over();
    } else {
      stuck = over() || !step();
    }
  }
  if (deadline) timers_.remove(*deadline, alarm);
  return done() ? Waited::done : late() ? Waited::late : Waited::stopped;
}

// Hooks.

std::uint64_t Simulator::producer() noexcept {
  return running_.actor == nobody ? thread_number() : actors_[running_.actor]->producer;
}

void Simulator::point() noexcept {
  if (on_own_fiber()) leave(true);
}

void Simulator::point_in_submit() noexcept {
  if (!on_own_fiber()) return;
  if (fault(SimulationFault::producer_stops)) {
    sleep_until(now_ + some_time());
  } else {
    leave(true);
  }
}

bool Simulator::pass() noexcept {
  if (on_own_fiber()) {
    choice_.give_way(running_.actor);
    sleep_until(now_ + tuning::simulated_pass);
    return !over();
  }
  return !over() && step();
}

void Simulator::before_allocation() {
  if (fault(SimulationFault::allocation_fails)) throw std::bad_alloc();
}

bool Simulator::queue_full() noexcept { return fault(SimulationFault::queue_full); }

void Simulator::before_open(const std::string& name) {
  if (fault(SimulationFault::thread_fails)) {
    throw Error(ErrorCode::unavailable,
                fmt::format("device '{}': no thread, says the simulation", name));
  }
}

Status Simulator::begin_task(DeviceCore& device, std::uint64_t ticket, bool may_fail) noexcept {
  const std::size_t number = actor_of(device);
  Actor& actor = *actors_[number];
  note("begins", number, ticket);
  if (actor.in_task)
    fail(fmt::format("device '{}' begins ticket {} within another", actor.name, ticket));
  if (ticket <= actor.last_ticket) {
    fail(fmt::format("device '{}' begins ticket {} after {}", actor.name, ticket,
                     actor.last_ticket));
  }
  actor.in_task = true;
  actor.last_ticket = ticket;
  point();
  if (!may_fail) return {};
  if (fault(SimulationFault::task_stalls)) sleep_until(now_ + some_time());
  if (!fault(SimulationFault::task_throws)) return {};
  return Status(ErrorCode::device_failed, "planted by the simulation")
      .with_exception(std::make_exception_ptr(std::runtime_error("planted by the simulation")));
}

void Simulator::end_task(DeviceCore& device, std::uint64_t ticket) noexcept {
  const std::size_t actor = actor_of(device);
  actors_[actor]->in_task = false;
  const Counters counters = device.counters();
  note("ends", actor, (ticket << 32) + (counters.failed << 16) + counters.skipped);
}

Waited Simulator::wait(const Event& event, Deadline deadline) noexcept {
  const bool suspends = on_own_fiber();
  std::uint64_t call = 0;
  try {
    before_allocation();
    if (suspends) call = Timeline::call(event, waker());
  } catch (const std::bad_alloc&) {  // polls
    while (!Timeline::has_ended(event)) {
      if (deadline && now_ >= *deadline) return Waited::late;
      if (!pass()) return Waited::stopped;
    }
    return Waited::done;
  }
  Actor* const host = suspends ? actors_[running_.actor].get() : nullptr;
  if (host != nullptr) host->waits_for = event.to_string();
  const Waited waited = wait_for([&] { return Timeline::has_ended(event); }, deadline);
  if (host != nullptr) host->waits_for.clear();
  if (suspends) Timeline::of(event)->uncall(call);
  return waited;
}

// For hosts and tasks.

void Simulator::sleep_until(Clock::time_point time) {
  static_cast<void>(wait_for([] { return false; }, time));
}

void Simulator::yield() noexcept {
  if (on_own_fiber()) {
    choice_.give_way(running_.actor);
    leave(true);
  } else {
    static_cast<void>(step());
  }
}

void Simulator::fail(const std::string& why) {
  if (!failure_.ok()) return;
  failure_ = Status(ErrorCode::internal,
                    fmt::format("simulation of seed {}, step {}: {}", options_.seed, steps_, why));
  if (options_.on_step) options_.on_step("fails: " + why);
}

std::chrono::nanoseconds Simulator::some_time() noexcept {
  return std::chrono::nanoseconds((std::uint64_t{1000} << draw(16)) + draw(1000));
}

bool Simulator::fault(SimulationFault kind) noexcept {
  if (!choice_.fault(kind)) return false;
  note(name(kind), running_.actor, 0);
  return true;
}

}  // namespace heddle::sched
