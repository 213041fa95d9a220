// The ring alone, over atomics that count what is asked of them.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <new>
#include <thread>
#include <vector>

#include "scheduler/protocol/lane.hpp"
#include "tests/support/seeds.hpp"

namespace heddle::sched {
namespace {

thread_local std::uint64_t operations = 0;

template <class T>
class CountingAtomic {
 public:
  explicit CountingAtomic(T value) : value_(value) {}
  T load(std::memory_order order) const noexcept {
    ++operations;
    return value_.load(order);
  }
  void store(T value, std::memory_order order) noexcept {
    ++operations;
    value_.store(value, order);
  }
  T fetch_or(T bits, std::memory_order order) noexcept {
    ++operations;
    return value_.fetch_or(bits, order);
  }
  T exchange(T value, std::memory_order order) noexcept {
    ++operations;
    return value_.exchange(value, order);
  }
  bool compare_exchange_strong(T& expected, T desired, std::memory_order success,
                               std::memory_order failure) noexcept {
    ++operations;
    return value_.compare_exchange_strong(expected, desired, success, failure);
  }
  bool compare_exchange_weak(T& expected, T desired, std::memory_order success,
                             std::memory_order failure) noexcept {
    ++operations;
    return value_.compare_exchange_strong(expected, desired, success, failure);
  }

 private:
  std::atomic<T> value_;
};
struct CountingEnv {
  template <class T>
  using atomic = CountingAtomic<T>;
  template <class T>
  using array = std::vector<T>;
  static bool asymmetric() noexcept { return true; }
  static void light_barrier() noexcept { sched::light_barrier(); }
  static void heavy_barrier() noexcept { sched::heavy_barrier(); }
  static void relax() noexcept { cpu_relax(); }
};

struct Number {
  static void construct(void* to, void* from) noexcept {
    ::new (to) std::uint64_t(*static_cast<std::uint64_t*>(from));
  }
  static bool run(void* /*callable*/, Status& /*failure*/) { return true; }
  static void destroy(void* /*callable*/) noexcept {}
};
constexpr TaskOps number_ops{&Number::construct, &Number::run, &Number::destroy};

// S22: one thread's submit takes a bounded number of steps whatever the consumer does, until the
// queue is full
TEST(LaneTest, OneProducerIsWaitFree) {
  constexpr std::uint64_t count = 200'000 / test::slower;
  constexpr std::uint64_t steps_max = 16;
  Lane<CountingEnv> lane(64);
  std::atomic<std::uint64_t> completed{0};
  std::thread consumer([&] {
    for (std::uint64_t ticket = 1; ticket <= count;) {
      if (!lane.look(ticket).plain()) continue;
      std::uint64_t carried = 0;
      std::memcpy(&carried, lane.at(ticket).callable, sizeof carried);
      EXPECT_EQ(carried, ticket);
      // release: pairs with the acquire in reserve()'s callback below.
      completed.store(ticket++, std::memory_order_release);
    }
  });
  std::uint64_t most = 0, full = 0;
  for (std::uint64_t k = 1; k <= count;) {
    const std::uint64_t before = operations;
    // acquire: pairs with the release above.
    const auto ticket = lane.reserve(1, [&] { return completed.load(std::memory_order_acquire); });
    if (ticket == 0) {
      ++full;
      continue;
    }
    EXPECT_EQ(ticket, k);
    lane.publish(ticket, "", number_ops, &k);
    most = std::max(most, operations - before);
    ++k;
  }
  consumer.join();
  EXPECT_LE(most, steps_max) << "the queue was full " << full << " times";
}

TEST(LaneTest, FullAndClosedLanesHandOutNothing) {
  Lane<CountingEnv> lane(3);  // rounded up to 4
  EXPECT_EQ(lane.capacity(), 4u);
  std::uint64_t completed = 0;
  const auto done = [&] { return completed; };
  for (std::uint64_t k = 1; k <= 4; ++k) EXPECT_EQ(lane.reserve(1, done), k);
  EXPECT_EQ(lane.reserve(1, done), 0u);
  completed = 1;
  EXPECT_EQ(lane.reserve(1, done), 5u);
  EXPECT_EQ(lane.reserve(1, done), 0u);
  completed = 5;
  lane.close();
  EXPECT_EQ(lane.reserve(1, done), 0u);
  EXPECT_TRUE(lane.closed());
  EXPECT_EQ(lane.tickets(), 5u);
}

#ifndef HEDDLE_TSAN  // one thread, and millions of steps
// S1: no slot passes for one of another lap: not before the first, nor when marks repeat
TEST(LaneTest, SlotsAreTakenForTheirOwnTicketsOnly) {
  constexpr std::uint64_t marks = std::uint64_t{1} << (tuning::mark_from + 15);
  const Lane<> fresh(queue_size_max);
  for (std::uint64_t ticket = 1; ticket <= queue_size_max; ++ticket)
    ASSERT_FALSE(fresh.look(ticket).published()) << ticket;

  Lane<> lane(1);
  std::uint64_t completed = 0;
  for (std::uint64_t k = 1; k <= marks + 100; ++k) {
    const std::uint64_t ticket = lane.reserve(1, [&] { return completed; });
    ASSERT_EQ(ticket, k);
    ASSERT_FALSE(lane.look(ticket).published()) << ticket;
    TaskNote note;
    note.contain = true;
    const bool noted = k % 3 == 0;
    if (noted) {
      lane.publish(ticket, "noted", number_ops, &k, note);
    } else {
      lane.publish(ticket, "", number_ops, &k);
    }
    const Found found = lane.look(ticket);
    ASSERT_TRUE(found.published() && found.plain() == !noted && found.noted() == noted) << ticket;
    ASSERT_EQ(&found.ops(), &number_ops);
    completed = ticket;
  }
  EXPECT_TRUE(lane.note(3).contain);
}
#endif

}  // namespace
}  // namespace heddle::sched
