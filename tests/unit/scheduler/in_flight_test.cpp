// InFlight alone, and by several threads that report at random: order, and that none is lost.
#include "scheduler/protocol/in_flight.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <random>
#include <thread>
#include <vector>

namespace heddle::sched {
namespace {

// S23: ends are told in ticket order, whatever the order of the reports, and not before the issue
// is over.
TEST(InFlightTest, EndsInTicketOrder) {
  InFlight<> in_flight(4);
  std::vector<std::uint64_t> ended;
  const auto end = [&](std::uint64_t ticket) {
    ended.push_back(ticket);
    return true;
  };
  const auto issue = [&](std::uint64_t ticket) {
    in_flight.begin(ticket);
    in_flight.issued(ticket, end);
  };
  for (std::uint64_t ticket = 1; ticket <= 3; ++ticket) issue(ticket);
  in_flight.reported(3, end);
  in_flight.reported(2, end);
  EXPECT_TRUE(ended.empty());
  in_flight.reported(1, end);
  EXPECT_EQ(ended, (std::vector<std::uint64_t>{1, 2, 3}));
  in_flight.begin(4);
  in_flight.reported(4, end);
  EXPECT_EQ(ended.size(), 3u);
  in_flight.issued(4, end);
  EXPECT_EQ(ended.back(), 4u);
}

// S23: the end of a task may report another one, which ends after it and not within it.
TEST(InFlightTest, ReportsWithinAnEnd) {
  InFlight<> in_flight(8);
  std::vector<std::uint64_t> ended;
  int depth = 0;
  const std::function<bool(std::uint64_t)> end = [&](std::uint64_t ticket) {
    EXPECT_EQ(++depth, 1);
    ended.push_back(ticket);
    if (ticket < 8) in_flight.reported(ticket + 1, end);
    --depth;
    return true;
  };
  for (std::uint64_t ticket = 1; ticket <= 8; ++ticket) {
    in_flight.begin(ticket);
    in_flight.issued(ticket, end);
  }
  in_flight.reported(1, end);
  EXPECT_EQ(ended.size(), 8u);
  EXPECT_TRUE(std::ranges::is_sorted(ended));
}

// S23: room for three of them, a number that is no power of two.
TEST(InFlightTest, RoomForMost) {
  const InFlight<> in_flight(3);
  EXPECT_EQ(in_flight.room_after(3), 0u);
  EXPECT_EQ(in_flight.room_after(4), 1u);
  EXPECT_EQ(in_flight.room_after(10), 7u);
}

// S23: threads report tickets in any order while they are issued; none is lost, and each ends once,
// in order, by one thread at a time.
TEST(InFlightTest, ThreadsReport) {
  constexpr std::uint64_t tickets = 20'000;
  constexpr std::uint32_t most = 16;
  constexpr int reporters = 3;
  InFlight<> in_flight(most);
  std::atomic<std::uint64_t> completed{0};
  std::uint64_t ended = 0;  // belongs to the thread that ends tickets
  const auto end = [&](std::uint64_t ticket) {
    EXPECT_EQ(ticket, ++ended);
    // release: pairs with the acquire of the thread that issues.
    completed.store(ticket, std::memory_order_release);
    return true;
  };
  std::vector<std::atomic<int>> begun(tickets + 1);
  std::vector<std::thread> threads;
  for (int k = 0; k < reporters; ++k) {
    threads.emplace_back([&, k] {
      std::mt19937 random(static_cast<unsigned>(k) + 1);
      std::vector<std::uint64_t> mine;
      for (std::uint64_t next = 1 + static_cast<std::uint64_t>(k);
           next <= tickets || !mine.empty();) {
        // Up to five tickets of its own are kept back, as long as later ones begin.
        // acquire: pairs with the release of the thread that issues.
        if (next <= tickets && mine.size() < 5 &&
            begun[next].load(std::memory_order_acquire) != 0) {
          mine.push_back(next);
          next += reporters;
        } else if (!mine.empty()) {
          std::swap(mine[random() % mine.size()], mine.back());
          in_flight.reported(mine.back(), end);
          mine.pop_back();
        } else {
          std::this_thread::yield();
        }
      }
    });
  }
  for (std::uint64_t ticket = 1; ticket <= tickets; ++ticket) {
    // acquire: pairs with the release in `end`.
    while (completed.load(std::memory_order_acquire) < in_flight.room_after(ticket))
      std::this_thread::yield();
    in_flight.begin(ticket);
    // release: pairs with the acquire of the reporter.
    begun[ticket].store(1, std::memory_order_release);
    in_flight.issued(ticket, end);
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(completed.load(), tickets);
}

}  // namespace
}  // namespace heddle::sched
