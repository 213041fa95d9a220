// Turns of host threads.
#include "runtime/replay/turns.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <optional>
#include <thread>

#include "heddle/status.hpp"

namespace heddle::rt {
namespace {

using namespace std::chrono_literals;

// D19: one that is given up lets nobody have theirs before it is over
TEST(TurnsTest, ThoseGivenUpAreNobodyElses) {
  Turns turns("turns");
  std::optional<Turns::Turn> first;
  first.emplace(turns, std::nullopt);
  std::thread([&] {
    try {
      const Turns::Turn soon(turns, Event::Clock::now() + 1ms);
      ADD_FAILURE() << "it has a turn";
    } catch (const Error& e) {
      EXPECT_EQ(e.status().code(), ErrorCode::deadline);
    }
  }).join();
  std::atomic<bool> over = false;
  std::thread behind([&] {
    const Turns::Turn mine(turns, std::nullopt);
    EXPECT_TRUE(over);
  });
  std::this_thread::sleep_for(20ms);
  over = true;
  first.reset();
  behind.join();
}

}  // namespace
}  // namespace heddle::rt
