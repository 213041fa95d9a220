// Visits: who is inside, by threads; a remover that waits for all who may have a thing.
#include "scheduler/protocol/visits.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

namespace heddle::sched {
namespace {

using By = Visits<>::By;

// Each count is to be seen empty once, in whichever order
TEST(VisitsTest, PassOnceAllHaveLeft) {
  Visits<> visits;
  Visits<>::Seen seen;
  EXPECT_EQ(visits.enter(1), By::shared);
  EXPECT_EQ(visits.enter(65), By::shared);  // the same place
  EXPECT_EQ(visits.enter(2), By::shared);
  EXPECT_FALSE(visits.pass(seen));
  visits.leave(2, By::shared);
  visits.leave(1, By::shared);
  EXPECT_FALSE(visits.pass(seen));
  const By second = visits.enter(2);  // came after the removal: its place was seen empty
  visits.leave(65, By::shared);
  EXPECT_TRUE(visits.pass(seen));
  EXPECT_EQ(visits.total(), 4U);
  Visits<>::Seen later;
  EXPECT_FALSE(visits.pass(later));
  visits.leave(2, second);
  EXPECT_TRUE(visits.pass(later));
}

// Visits of the first thread of a place end where they began, or on another thread
TEST(VisitsTest, FirstThreadsOfPlacesAreSeen) {
  Visits<> visits;
  visits.leave(1, visits.enter(1));
  const By by = visits.enter(1);
  EXPECT_EQ(by, StdEnv::asymmetric() ? By::own : By::shared);
  EXPECT_EQ(visits.enter(65), By::shared);  // not the first thread
  Visits<>::Seen seen;
  visits.leave(65, By::shared);
  EXPECT_FALSE(visits.pass(seen));
  visits.leave(1, By::shared);
  EXPECT_TRUE(visits.pass(seen));
  const By again = visits.enter(1);
  Visits<>::Seen later;
  EXPECT_FALSE(visits.pass(later));
  visits.leave(1, again);
  EXPECT_TRUE(visits.pass(later));
  EXPECT_EQ(visits.total(), 4U);
}

// Things are taken out and destroyed while threads visit them
TEST(VisitsTest, NobodyHasWhatIsDestroyed) {
  Visits<> visits;
  std::atomic<int*> found{new int(1)};
  std::atomic<bool> stop{false};
  std::atomic<std::uint64_t> sum{0}, wrong{0};
  std::vector<std::jthread> visitors;
  for (std::uint64_t thread = 1; thread <= 3; ++thread) {
    visitors.emplace_back([&, thread] {
      while (!stop) {
        const By by = visits.enter(thread);
        // seq_cst, here and below: see Visits.
        const int value = *found.load(std::memory_order_seq_cst);
        if (value <= 0) ++wrong;
        ++sum;
        visits.leave(thread, by);
      }
    });
  }
  for (int round = 2; round < 400; ++round) {
    // seq_cst: pairs with the load above.
    int* const gone = found.exchange(new int(round), std::memory_order_seq_cst);
    for (Visits<>::Seen seen; !visits.pass(seen);) std::this_thread::yield();
    *gone = -1;
    delete gone;
  }
  stop = true;
  visitors.clear();
  EXPECT_EQ(wrong, 0U);
  EXPECT_EQ(visits.total(), sum);
  delete found.load();
}

}  // namespace
}  // namespace heddle::sched
