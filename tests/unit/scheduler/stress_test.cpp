// Random graphs of tasks on real threads: devices of both modes, cross waits, failures, recoveries,
// cancels, foreign signals. Each round is drawn from a seed, which failures print;
// HEDDLE_TEST_SEED=N runs that one round, HEDDLE_TEST_ROUNDS=N more of them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include "heddle/scheduler.hpp"

namespace heddle {
namespace {

using namespace std::chrono_literals;
using sched::Device;
using sched::ExternalTimeline;
using sched::FullPolicy;
using sched::Mode;

using Random = std::mt19937_64;

std::uint64_t from_environment(const char* name, std::uint64_t fallback) {
  const char* const text = std::getenv(name);
  return text == nullptr ? fallback : std::strtoull(text, nullptr, 10);
}

/// Shared by all threads of a round. An event only ever waits for events published before it was
/// submitted, so there is no cycle by construction.
struct Round {
  struct Checked {
    explicit Checked(Device opened) : device(std::move(opened)) {}
    Device device;
    std::atomic<int> inside{0};
    std::uint64_t last_ticket = 0;  // of a task that ran; the consumer's
    std::atomic<std::uint64_t> accepted{0};
  };

  Round(std::uint64_t seed, int device_count, std::uint32_t capacity) : foreign("foreign") {
    Random random(seed);
    for (int k = 0; k < device_count; ++k) {
      sched::DeviceOptions options;
      options.name = "stress" + std::to_string(k);
      options.mode = std::array{Mode::threaded, Mode::inline_, Mode::pooled}[random() % 3];
      options.capacity = capacity;
      options.spin = std::chrono::nanoseconds(random() % 2 == 0 ? 0 : 5000);
      devices.push_back(std::make_unique<Checked>(scheduler.new_device(options)));
    }
  }

  void publish(Event event) {
    const std::lock_guard lock(mutex);
    if (events.size() < 64) {
      events.push_back(std::move(event));
    } else {
      events[oldest++ % 64] = std::move(event);
    }
  }
  Event draw(Random& random) {
    const std::lock_guard lock(mutex);
    return events.empty() ? Event() : events[random() % events.size()];
  }

  Scheduler scheduler;
  std::vector<std::unique_ptr<Checked>> devices;
  ExternalTimeline foreign;
  std::atomic<std::uint64_t> callbacks_due{0}, callbacks_run{0}, order_broken{0}, overlaps{0};
  std::mutex mutex;
  std::vector<Event> events;
  std::size_t oldest = 0;
};

void submit_one(Round& round, Random& random) {
  Round::Checked& target = *round.devices[random() % round.devices.size()];
  sched::SubmitOptions options;
  options.contain = random() % 4 == 0;
  if (random() % 3 == 0) options.after.push_back(round.draw(random));
  if (random() % 8 == 0) options.full = FullPolicy::fail;
  const bool awaits = random() % 5 == 0;
  const bool fails = random() % 40 == 0;
  const Event other = awaits ? round.draw(random) : Event();
  const Event event = target.device.submit(
      "stress",
      [&round, &target, other, awaits, fails]() -> Status {
        if (target.inside.fetch_add(1) != 0) round.overlaps.fetch_add(1);
        if (this_task::ticket() <= target.last_ticket) round.order_broken.fetch_add(1);
        target.last_ticket = this_task::ticket();
        Status end;
        if (awaits) end = this_task::await(other);
        target.inside.fetch_sub(1);
        if (fails) throw std::runtime_error("planted");
        return end.code() == ErrorCode::cancelled ? end : Status();
      },
      options);
  if (!event.accepted()) return;
  target.accepted.fetch_add(1);
  if (random() % 6 == 0) {
    round.callbacks_due.fetch_add(1);
    event.then([&round](const Status&) { round.callbacks_run.fetch_add(1); });
  }
  round.publish(event);
}

void produce(Round& round, std::uint64_t seed, int actions) {
  Random random(seed);
  for (int k = 0; k < actions; ++k) {
    const Device& device = round.devices[random() % round.devices.size()]->device;
    switch (random() % 64) {
      case 0:
        device.recover();
        break;
      case 1:
        device.cancel_pending();
        break;
      case 2:
        device.await_for(1ms);
        break;
      case 3:
        round.draw(random).wait_for(500us);
        break;
      case 4:
        EXPECT_FALSE(device.snapshot().to_string().empty());
        break;
      default:
        submit_one(round, random);
    }
  }
}

/// Ends foreign tickets late and sometimes badly, until told to stop; then all that are left.
void signal_foreign(Round& round, std::uint64_t seed, const std::atomic<bool>& stop) {
  Random random(seed);
  while (!stop.load()) {
    const Event event = round.foreign.next();
    round.publish(event);
    if (random() % 2 == 0) std::this_thread::sleep_for(std::chrono::microseconds(random() % 200));
    const Status end = random() % 8 == 0 ? Status(ErrorCode::device_failed, "foreign") : Status();
    EXPECT_TRUE(round.foreign.signal(event.ticket(), end).ok());
  }
}

void run_round(std::uint64_t seed) {
  SCOPED_TRACE(testing::Message() << "HEDDLE_TEST_SEED=" << seed);
  Random random(seed);
  const int device_count = 1 + static_cast<int>(random() % 6);
  const int producer_count = 1 + static_cast<int>(random() % 4);
  // Blocking submits into tiny queues could wait for each other through awaits, which only a
  // deadline would end: queues hold a round, or submissions to full ones are refused.
  Round round(random(), device_count, 4096);
  std::atomic<bool> stop{false};
  std::thread foreign(signal_foreign, std::ref(round), random(), std::cref(stop));
  std::vector<std::thread> producers;
  for (int k = 0; k < producer_count; ++k)
    producers.emplace_back(produce, std::ref(round), random(), 250);
  for (std::thread& producer : producers) producer.join();
  stop.store(true);
  foreign.join();

  for (const auto& target : round.devices) {
    const Status end = target->device.await_for(30s);
    ASSERT_NE(end.code(), ErrorCode::deadline) << target->device.snapshot().to_string();
    const sched::Counters counters = target->device.counters();
    EXPECT_EQ(counters.submitted, target->accepted.load());
    EXPECT_EQ(counters.submitted,
              counters.done + counters.failed + counters.skipped + counters.cancelled);
    EXPECT_TRUE(target->device.recover().ok());
    EXPECT_TRUE(target->device.submit("last", [] {}).wait().ok());
  }
  EXPECT_TRUE(round.scheduler.shutdown(30s).ok());
  EXPECT_EQ(round.callbacks_run.load(), round.callbacks_due.load());
  EXPECT_EQ(round.order_broken.load(), 0u);
  EXPECT_EQ(round.overlaps.load(), 0u);
}

// S1, S2, S6, S7, S9, S11, S12: order, one consumer, no waiter left behind, every task ends once
TEST(StressTest, RandomGraphsEndAndAddUp) {
  const std::uint64_t seed = from_environment("HEDDLE_TEST_SEED", 0);
  if (seed != 0) return run_round(seed);
  const std::uint64_t rounds = from_environment("HEDDLE_TEST_ROUNDS", 60);
  for (std::uint64_t k = 1; k <= rounds && !testing::Test::HasFailure(); ++k) run_round(k);
}

}  // namespace
}  // namespace heddle
