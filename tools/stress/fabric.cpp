// Submitting and running tasks, and checking the results.
#include "tools/stress/fabric.hpp"

#include <fmt/format.h>
#include <poll.h>

#include <map>
#include <stdexcept>
#include <thread>
#include <utility>

namespace heddle::stress {
namespace {

using namespace std::chrono_literals;
using sched::FullPolicy;
using sched::Mode;

constexpr std::size_t board_max = 64;
constexpr std::size_t descriptors_max = 16;
constexpr std::chrono::nanoseconds settle_pause = 50us;

/// All policies, equally often.
constexpr Mode modes[] = {
    Mode::threaded,
    Mode::inline_,
    Mode::pooled,
    Mode::manual,
};

std::chrono::nanoseconds up_to(std::chrono::nanoseconds most, Random& random) {
  return std::chrono::nanoseconds(random() % static_cast<std::uint64_t>(most.count()));
}

SchedulerOptions scheduler_options(Random& random) {
  SchedulerOptions options;
  options.name = "stress";
  options.workers = 1 + static_cast<unsigned>(random() % 3);
  if (once_in(2, random)) options.device.spin = 0ns;
  if (once_in(2, random)) options.watchdog = 10s;
  return options;
}

}  // namespace

Fabric::Fabric(Random& random)
    : scheduler_(scheduler_options(random)), slots_used_(1 + random() % slots_.size()) {
  for (std::size_t k = 0; k < slots_used_; ++k) slots_[k].store(&open(random));
}

Target& Fabric::open(Random& random) {
  sched::DeviceOptions options;
  options.mode = modes[random() % std::size(modes)];
  options.queue_size = once_in(3, random) ? 1U << (random() % 5) : 4096;
  options.spin = std::chrono::nanoseconds(once_in(2, random) ? 0 : 5000);
  options.full = once_in(3, random) ? FullPolicy::fail : FullPolicy::block;
  options.single_producer = once_in(12, random);
  if (once_in(3, random)) options.in_flight = 1 + static_cast<std::uint32_t>(random() % 8);
  if (options.mode == Mode::manual) has_manual_.store(true);
  const std::lock_guard lock(mutex_);
  options.name = fmt::format("d{}", targets_.size());
  return targets_.emplace_back(scheduler_.new_device(options), options);
}

void Fabric::publish(Event event) {
  const std::lock_guard lock(board_mutex_);
  if (board_.size() < board_max) {
    board_.push_back(std::move(event));
  } else {
    board_[oldest_++ % board_max] = std::move(event);
  }
}

Event Fabric::draw(Random& random) {
  const std::lock_guard lock(board_mutex_);
  return board_.empty() ? Event() : board_[random() % board_.size()];
}

void Fabric::complain(std::string what) {
  const std::lock_guard lock(mutex_);
  complaints_.push_back(std::move(what));
}

void Fabric::expect(bool holds, const char* what) {
  if (!holds) complain(what);
}

Status Fabric::run_task(Target& target, Fate& fate) {
  // relaxed, all: counters; they must not add order to the scheduler's.
  constexpr auto order = std::memory_order_relaxed;
  if (!fate.ends_later) late_.check_alone(target.in_flight);
  if (target.inside.fetch_add(1, order) != 0) target.overlaps.fetch_add(1, order);
  fate.runs.fetch_add(1, order);
  if (this_task::ticket() <= target.last_ticket) ++target.misordered;
  target.last_ticket = this_task::ticket();
  Random random(fate.seed);
  Status waited;
  if (fate.awaits) {
    waited = fate.waits_shortly ? fate.other.wait_for(up_to(300us, random))
                                : this_task::await(fate.other);
  }
  if (fate.submits) submit(random, target.nested);
  if (fate.works) {
    const auto end = Event::Clock::now() + up_to(once_in(16, random) ? 2ms : 20us, random);
    while (Event::Clock::now() < end) std::this_thread::yield();
  }
  target.inside.fetch_sub(1, order);
  fate.failed = fate.failure != Fate::Failure::none;
  if (fate.failure == Fate::Failure::throws) throw std::runtime_error("planted");
  if (fate.failure == Fate::Failure::returns)
    return Status(ErrorCode::failed_precondition, "planted");
  if (waited.code() == ErrorCode::cancelled) return waited;
  fate.ran_well = true;
  return {};
}

/// Callables of several kinds: copied, moved and counted, and too large for the queue.
Event Fabric::submit_sized(Target& target, Fate& fate, Random& random,
                           const sched::SubmitOptions& options) {
  const auto run = [this, &target, &fate] { return run_task(target, fate); };
  const bool plain = !options.full && !options.contain && options.after.empty();
  if (plain && once_in(2, random)) return target.device.submit("plain", run);
  switch (random() % 6) {
    case 0: {
      const std::array<char, 80> padding{};
      const auto large = [run, padding] {
        static_cast<void>(padding);
        return run();
      };
      return target.device.submit("large", large, options);
    }
    case 1:
      return target.device.submit("counted", [run, alive = alive_] { return run(); }, options);
    default:
      return target.device.submit("task", run, options);
  }
}

/// The completing thread may receive the Completion before or after the task is issued.
Event Fabric::submit_late(Target& target, Fate& fate, const sched::SubmitOptions& options) {
  // No local here keeps the data of the callable alive: the callable may be destroyed before
  // submit() returns.
  auto issue = [this, &target, &fate, alive = alive_,
                kept = late_.keep(target.in_flight, fate.late)](sched::Completion completion) {
    auto task = late_.begin(*kept, std::move(completion));
    const bool first = fate.seed % 2 == 0;
    if (first) late_.leave(std::move(task));
    Status status = run_task(target, fate);
    if (!first) late_.leave(std::move(task));
    return status;
  };
  return target.device.submit("late", std::move(issue), options);
}

bool Fabric::end_one(Random& random) {
  return late_.end_one([&](std::uint64_t bound) { return random() % bound; });
}

void Fabric::count_refusal(const Event& event, Tally& tally) {
  const ErrorCode code = event.status().code();
  expect(!event.status().ok(), "a refused submission says ok");
  ++tally[code == ErrorCode::exhausted || code == ErrorCode::deadline ? Count::full
                                                                      : Count::refused];
}

void Fabric::submit(Random& random, Submitter& submitter) {
  Target& to = target(random);
  Fate& fate = submitter.fates.emplace_back();
  fate.seed = random();
  fate.awaits = once_in(5, random);
  fate.waits_shortly = once_in(4, random);
  if (fate.awaits) fate.other = draw(random);
  fate.works = once_in(8, random);
  fate.submits = !submitter.in_task && once_in(6, random);
  if (once_in(100, random))
    fate.failure = once_in(2, random) ? Fate::Failure::throws : Fate::Failure::returns;
  sched::SubmitOptions options;
  options.contain = fate.contained = once_in(4, random);
  for (int k = 0; k < 2 && once_in(4, random); ++k) options.after.push_back(draw(random));
  options.deadline = Event::Clock::now() + up_to(500us, random);
  if (submitter.in_task || once_in(4, random))
    options.full = once_in(2, random) ? FullPolicy::fail : FullPolicy::deadline;

  fate.ends_later = to.in_flight.max != 0 && once_in(2, random);
  const Event event =
      fate.ends_later ? submit_late(to, fate, options) : submit_sized(to, fate, random, options);
  if (!event.accepted()) {
    submitter.fates.pop_back();
    count_refusal(event, submitter.tally);
    if (submitter.in_task || !once_in(3, random)) return;
    ++submitter.tally[Count::recoveries];
    static_cast<void>(to.device.recover());
    return;
  }
  fate.event = event;
  to.accepted.fetch_add(1);
  if (once_in(6, random)) {
    callbacks_due_.fetch_add(1);
    const auto count = [this](const Status&) { callbacks_run_.fetch_add(1); };
    if (once_in(4, random)) {
      event.then([](const std::function<void()>& call) { call(); }, count);
    } else {
      event.then(count);
    }
  }
  if (once_in(2, random)) publish(event);
}

void Fabric::wait_on_device(Random& random, Submitter& submitter) {
  Target& waiter = target(random);
  const Event event = draw(random);
  const Event gate = waiter.device.wait(event);
  if (!gate.accepted()) return count_refusal(gate, submitter.tally);
  const bool costs_a_task =
      gate.device_id() == waiter.device.id() && event.device_id() != waiter.device.id();
  if (costs_a_task) waiter.accepted.fetch_add(1);
}

void Fabric::reopen(Random& random, Submitter& submitter) {
  Target& fresh = open(random);
  Target& old = *slots_[random() % slots_used_].exchange(&fresh);
  const bool hasty = once_in(2, random);
  ++submitter.tally[Count::shutdowns];
  if (hasty) ++submitter.tally[Count::hasty_shutdowns];
  static_cast<void>(old.device.shutdown(hasty ? up_to(500us, random) : 10s));
}

void Fabric::watch_descriptor(Random& random, Submitter& submitter) {
  const Event event = draw(random);
  const std::lock_guard lock(board_mutex_);
  if (descriptors_.size() >= descriptors_max) return;
  ++submitter.tally[Count::descriptors];
  descriptors_.emplace_back(event, event.fd());
}

bool Fabric::await_devices(Event::Clock::time_point deadline) {
  // First the hosts' submissions, then the submissions of their tasks.
  for (int generation = 0; generation < 2; ++generation) {
    for (const Target& target : targets_) {
      if (target.device.await_until(deadline).code() == ErrorCode::deadline) return false;
    }
  }
  return true;
}

bool Fabric::settle(Event::Clock::time_point deadline) {
  if (!await_devices(deadline)) return false;
  // Callbacks, and descriptors signalled by callbacks, come after the ends of their events.
  while (callbacks_run_.load() != callbacks_due_.load()) {
    if (Event::Clock::now() >= deadline) return false;
    std::this_thread::sleep_for(settle_pause);
  }
  for (const auto& [event, descriptor] : descriptors_) {
    pollfd ready{descriptor.get(), POLLIN, 0};
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Event::Clock::now());
    if (::poll(&ready, 1, static_cast<int>(std::max<std::int64_t>(left.count(), 0))) != 1)
      return false;
  }
  return true;
}

void Fabric::check_all(const std::vector<const Submitter*>& hosts, Tally& tally) {
  std::map<std::uint64_t, DeviceFacts> devices;
  for (Target& target : targets_) {
    DeviceFacts& facts = devices[target.device.id()];
    facts = {target.device.name(),   target.accepted.load(), target.device.counters(),
             target.overlaps.load(), target.misordered,      {}};
    tally[Count::parks] += facts.counters.parks;
    tally[Count::wakes] += facts.counters.wakes;
    tally[Count::spins] += facts.counters.spins;
    tally[Count::done] += facts.counters.done;
    tally[Count::failed] += facts.counters.failed;
    tally[Count::skipped] += facts.counters.skipped;
    tally[Count::cancelled] += facts.counters.cancelled;
    tally[Count::tasks] += facts.counters.submitted;
  }
  const auto look_back = [&](const Submitter& submitter) {
    tally += submitter.tally;
    for (const Fate& fate : submitter.fates) {
      devices[fate.event.device_id()].tasks.push_back(
          {fate.event.ticket(), fate.event.done(), fate.event.status(), fate.runs.load(),
           fate.ran_well && !fate.late.reported_bad, fate.ends_later, fate.late.reports});
      tally[Count::thrown] += fate.failed ? 1 : 0;
      tally[Count::contained] += fate.failed && fate.contained ? 1 : 0;
    }
  };
  for (const Submitter* const host : hosts) look_back(*host);
  for (const Target& target : targets_) look_back(target.nested);
  for (const auto& [id, facts] : devices) {
    for (std::string& broken : check(facts)) complain(std::move(broken));
  }
  tally[Count::devices] += targets_.size();
  tally[Count::callbacks] += callbacks_run_.load();
  const LateTasks::Counts late = late_.counts();
  tally[Count::late] += late.begun;
  tally[Count::late_beside] += late.beside_others;
  tally[Count::late_dropped] += late.dropped;
  tally[Count::late_failed] += late.failed;
  // Each open device still works after the round.
  for (std::size_t k = 0; k < slots_used_; ++k) {
    const Target& target = *slots_[k].load();
    expect(target.device.recover().ok(), "an idle device does not recover");
    if (target.single_producer) continue;
    const Status last = target.device.submit("last", [] {}).wait_for(10s);
    if (!last.ok()) complain("a recovered device takes no task: " + last.to_string());
  }
  const Status end = scheduler_.shutdown(10s);
  if (!end.ok()) complain("idle devices do not shut down: " + end.to_string());
  expect(alive_.use_count() == 1, "a callable was not destroyed");
}

std::vector<std::string> Fabric::take_complaints() {
  const std::lock_guard lock(mutex_);
  return std::exchange(complaints_, {});
}

std::string Fabric::describe() {
  std::string text;
  for (const sched::Snapshot& snapshot : scheduler_.snapshot())
    text += "\n  " + snapshot.to_string();
  return text;
}

}  // namespace heddle::stress
