// The simulator's actors and loop, its functions as a runner, and its checks.
#include "scheduler/simulation/simulator.hpp"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>

#include "heddle/observe.hpp"
#include "scheduler/device/device_core.hpp"
#include "scheduler/threads/task_context.hpp"
#include "scheduler/threads/what.hpp"
#include "scheduler/tuning.hpp"

namespace heddle::sched {

/// A device's turn, as handed to the fiber of the turn.
struct Simulator::Turn {
  Simulator* simulator;
  std::shared_ptr<DeviceCore> device;
  Fiber* fiber;
};

Simulator::Simulator(SimulationOptions options)
    : options_(std::move(options)),
      choice_(options_),
      now_(tuning::simulated_start),
      steps_max_(options_.steps_max) {
  set_hooks(this);
}

Simulator::~Simulator() {
  for (auto& [raw, fiber] : fibers_) {
    // The frames on the fiber's stack cannot be ended from outside.
    log(LogLevel::error, fmt::format("simulation of seed {}: '{}' never ended; its stack is lost",
                                     options_.seed, actors_[fiber.first]->name));
    static_cast<void>(new std::shared_ptr<Fiber>(std::move(fiber.second)));
  }
}

// Actors.

std::size_t Simulator::add_actor(std::string name) {
  // Separate from the numbers of threads, which count from 1.
  static std::atomic<std::uint64_t> producers{std::uint64_t{1} << 62};
  actors_.push_back(std::make_unique<Actor>());
  actors_.back()->name = std::move(name);
  // relaxed: pairs with the same operation of other simulations; gives out numbers.
  actors_.back()->producer = producers.fetch_add(1, std::memory_order_relaxed);
  return choice_.add_actor();
}

std::size_t Simulator::actor_of(DeviceCore& device) {
  const auto [at, fresh] = device_actors_.try_emplace(device.timeline().id(), actors_.size());
  if (fresh) {
    add_actor(device.timeline().name());
    actors_.back()->device = device.weak_from_this();
  }
  return at->second;
}

std::size_t Simulator::actor_of(const Ready& ready) {
  if (ready.device) return actor_of(*ready.device);
  return ready.fiber ? fibers_.at(ready.fiber.get()).first : ready.host;
}

void Simulator::add_host(std::string name, std::function<void()> body) {
  const std::size_t host = add_actor(std::move(name));
  actors_[host]->body = std::move(body);
  push_now({.host = host});
}

void Simulator::signal_later(const ExternalTimeline& timeline, const Event& event) {
  add_host("signal of " + event.to_string(), [this, timeline, event]() mutable {
    auto when = now_ + some_time();
    if (fault(SimulationFault::signal_late)) when += tuning::simulated_late;
    sleep_until(when);
    Status status;
    if (fault(SimulationFault::signal_fails))
      status = Status(ErrorCode::device_failed, "planted by the simulation");
    // The signal of a later ticket may have ended this ticket too.
    if (!Timeline::has_ended(event))
      static_cast<void>(ExternalTimeline(timeline).signal(event.ticket(), std::move(status)));
  });
}

// The loop.

void Simulator::push(Ready ready) noexcept {
  if (hooks() == this && fault(SimulationFault::wake_delayed)) {
    bool earlier = false;
    timers_.add(now_ + some_time(), [this, ready] { push_now(ready); }, earlier);
  } else {
    push_now(std::move(ready));
  }
}

void Simulator::push_now(Ready ready) noexcept {
  const std::lock_guard lock(mutex_);
  ready_.push_back(std::move(ready));
}

/// Takes the entry to continue in this step; false: no entry is ready.
bool Simulator::take(Ready& ready) {
  const std::lock_guard lock(mutex_);
  if (ready_.empty()) return false;
  std::vector<std::size_t> actors;
  actors.reserve(ready_.size());
  for (const Ready& one : ready_) actors.push_back(actor_of(one));
  const std::size_t chosen = choice_.choose(steps_, actors);
  ready = std::move(ready_[chosen]);
  ready_[chosen] = std::move(ready_.back());
  ready_.pop_back();
  return true;
}

/// One step; false: no actor can continue, now or later.
bool Simulator::step() {
  if (steps_ >= steps_max_) {
    fail(fmt::format("not ended after {} steps", steps_));
    return false;
  }
  if (++steps_ == options_.fault_steps) choice_.end_faults();
  now_ += std::chrono::nanoseconds(1 + draw(2000));
  if (fault(SimulationFault::clock_jumps)) now_ += some_time() * 16;
  timers_.run_due(now_);
  Ready ready;
  if (take(ready)) {
    go_on(std::move(ready));
    return true;
  }
  if (timers_.next() == Clock::time_point::max()) return false;
  now_ = std::max(now_, timers_.next());
  return true;
}

void Simulator::go_on(Ready ready) {
  const std::size_t actor = actor_of(ready);
  const auto fiber = ready.fiber ? std::move(ready.fiber) : Fiber::take();
  if (!fiber) return push_now(std::move(ready));  // without memory: later
  note(ready.device ? "turn" : "resumed", actor, 0);
  const Running outer = std::exchange(running_, Running{actor, fiber.get()});
  bool ended = false;
  {
    const OutsideTasks beneath;
    if (ready.device) {
      Turn turn{this, std::move(ready.device), fiber.get()};
      fibers_[fiber.get()] = {actor, fiber};
      ended = fiber->start(&Simulator::turn_on_fiber, &turn);
    } else if (ready.host != nobody) {
      fibers_[fiber.get()] = {actor, fiber};
      ended = fiber->start(&Simulator::host_on_fiber, this);
    } else {
      ended = fiber->resume();
    }
  }
  const bool may_go_on = std::exchange(running_, outer).may_go_on;
  if (ended) {
    fibers_.erase(fiber.get());
    fiber->forget_token();  // a left token would change the next run of this seed
    Fiber::give_back(fiber);
  } else if (may_go_on || !fiber->park()) {
    push_now({.fiber = fiber});
  }
}

void Simulator::turn_on_fiber(void* turn) noexcept {
  // its memory is gone when the fiber is left
  const Turn mine = std::move(*static_cast<Turn*>(turn));
  if (mine.device->take_turn(mine.fiber, 1)) mine.simulator->push({.device = mine.device});
}

void Simulator::host_on_fiber(void* simulator) noexcept {
  auto& self = *static_cast<Simulator*>(simulator);
  Actor& host = *self.actors_[self.running_.actor];
  try {
    host.body();
  } catch (const std::exception& e) {
    self.fail(fmt::format("host '{}' threw: {}", host.name, what_of(e)));
  } catch (...) {
    self.fail(fmt::format("host '{}' threw something that is no std::exception", host.name));
  }
  host.body = nullptr;
}

SimulationReport Simulator::run() {
  while (step()) {
  }
  check_ends();
  return {failure_, options_.seed, steps_, hash_, now_ - tuning::simulated_start, choice_.faults()};
}

void Simulator::end() noexcept {
  // relaxed: pairs with the load in over(); carries no data.
  over_.store(true, std::memory_order_relaxed);
  std::vector<std::shared_ptr<Fiber>> left;
  for (const auto& [raw, fiber] : fibers_) left.push_back(fiber.second);
  for (auto& fiber : left) {
    if (fiber->unpark()) push_now({.fiber = std::move(fiber)});
  }
  for (auto& device : std::exchange(lost_, {})) push_now({.device = std::move(device)});
  steps_max_ = steps_ + tuning::simulated_end_steps;
  while (step()) {
  }
  set_hooks(nullptr);
}

// Runner.

void Simulator::run(DeviceCore& device) noexcept {
  const std::uint64_t lost = options_.lost_turns_one_in;
  if (lost != 0 && hooks() == this && draw(lost) == 0) {
    static_cast<void>(actor_of(device));  // remaining tasks of the device are checked at the end
    lost_.push_back(device.shared_from_this());
    return;
  }
  push({.device = device.shared_from_this()});
}
void Simulator::look_later(DeviceCore& device) noexcept { device.look(); }
void Simulator::resume(std::shared_ptr<Fiber> fiber) noexcept { push({.fiber = std::move(fiber)}); }

std::uint64_t Simulator::call_at(Clock::time_point when, std::function<void()> callback) {
  bool earlier = false;
  return timers_.add(when, std::move(callback), earlier);
}
void Simulator::uncall(Clock::time_point when, std::uint64_t call) noexcept {
  timers_.remove(when, call);
}
std::optional<bool> Simulator::run_until(const Event& /*event*/, Deadline /*deadline*/) noexcept {
  // Hosts of this thread use wait(); other threads may sleep until the simulation is over.
  return over() ? std::optional(false) : std::nullopt;
}

// Conditions that must hold at the end.

void Simulator::check_ends() {
  for (const auto& actor : actors_) {
    if (actor->body) {
      fail(fmt::format("host '{}' has not ended: it waits for {}", actor->name,
                       actor->waits_for.empty() ? "a time" : actor->waits_for));
    }
    const auto device = actor->device.lock();
    if (!device) continue;
    if (!device->is_idle()) fail("tasks were left: " + device->snapshot().to_string());
    if (actor->in_task) fail(fmt::format("device '{}' never ended a task", actor->name));
    if (device->counters().queue_max > std::bit_ceil(*device->options().queue_size)) {
      fail(fmt::format("device '{}' took {} tasks at once, its queue_size is {}", actor->name,
                       device->counters().queue_max, *device->options().queue_size));
    }
    if (device->is_idle() && device->timeline().waiters() != 0) {
      fail(fmt::format("device '{}' is idle, and {} still wait for it", actor->name,
                       device->timeline().waiters()));
    }
  }
}

void Simulator::note(std::string_view what, std::size_t actor, std::uint64_t number) noexcept {
  const std::uint64_t facts[] = {static_cast<std::uint64_t>(now_.time_since_epoch().count()), actor,
                                 number};
  hash_ =
      XXH3_64bits_withSeed(facts, sizeof facts, hash_ + static_cast<unsigned char>(what.front()));
  if (!options_.on_step) return;
  options_.on_step(
      fmt::format("step {}, {} us: {} {} {}", steps_,
                  (now_.time_since_epoch() - tuning::simulated_start.time_since_epoch()) /
                      std::chrono::microseconds(1),
                  actor == nobody ? "-" : actors_[actor]->name, what, number));
}

}  // namespace heddle::sched
