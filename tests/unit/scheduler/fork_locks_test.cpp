// Locks in forked children, which lack the threads that may have held them.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "heddle/observe.hpp"
#include "heddle/scheduler.hpp"
#include "scheduler/protocol/split_count.hpp"
#include "scheduler/sanitizers.hpp"
#include "scheduler/threads/biased_mutex.hpp"
#include "scheduler/threads/object_mutex.hpp"
#include "scheduler/threads/process_mutex.hpp"
#include "tests/support/forked.hpp"
#include "tests/support/seeds.hpp"

namespace heddle {
namespace {

using namespace std::chrono_literals;

// S14: who forks waits for whoever is inside, so that children find it free, and what it guards
// whole
TEST(ProcessMutexTest, IsFreeAndWholeInChildren) {
  static constinit sched::ProcessMutex mutex;
  static int begun = 0, ended = 0;
  std::barrier inside(2);
  std::thread holder([&] {
    const std::lock_guard lock(mutex);
    ++begun;
    inside.arrive_and_wait();
    std::this_thread::sleep_for(50ms);
    ++ended;
  });
  inside.arrive_and_wait();
  EXPECT_TRUE(in_forked_child([] {
    const std::lock_guard lock(mutex);
    return begun == 1 && ended == 1;
  }));
  holder.join();
}

// S14: who forks takes no part in any order of locks, whichever was locked first ever
TEST(ProcessMutexTest, MayBeLockedInAnyOrder) {
  static constinit sched::ProcessMutex pairs[2][2];
  for (const bool reversed : {false, true}) {
    sched::ProcessMutex& first = pairs[reversed][0];
    sched::ProcessMutex& then = pairs[reversed][1];
    for (sched::ProcessMutex* const each : {reversed ? &then : &first, reversed ? &first : &then})
      const std::lock_guard lock(*each);
    const auto lock_both = [&](const std::function<void()>& between) {
      const std::lock_guard lock(first);
      between();
      const std::lock_guard more(then);
      return true;
    };
    ::alarm(60);
    std::barrier inside(2);
    std::thread holder([&] {
      lock_both([&] {
        inside.arrive_and_wait();
        std::this_thread::sleep_for(50ms);
      });
    });
    inside.arrive_and_wait();
    EXPECT_TRUE(in_forked_child([&] { return lock_both([] {}); }));
    holder.join();
    ::alarm(0);
  }
}

// S14
TEST(ObjectMutexTest, ChildrenLockItWhereNobodyWasInside) {
  const auto device = Scheduler().new_device("counts forks from here on");
  sched::ObjectMutex mutex;
  std::barrier inside(2), forked(2);
  std::thread holder([&] {
    const auto lock = mutex.lock_or_fork();
    EXPECT_TRUE(lock);
    inside.arrive_and_wait();
    forked.arrive_and_wait();
  });
  inside.arrive_and_wait();
  EXPECT_TRUE(in_forked_child([&] { return !mutex.lock_or_fork(); }));
  forked.arrive_and_wait();
  holder.join();
  EXPECT_TRUE(in_forked_child([&] { return mutex.lock_or_fork().owns_lock(); }));
}

#ifndef HEDDLE_TSAN  // whose locks threads may hold at a fork, and which refuses threads after it
// S14: a lock that a child inherited keeps the child's threads apart, whoever was inside at the
// fork
TEST(BiasedMutexTest, KeepsThreadsOfAChildApart) {
  const auto device = Scheduler().new_device("counts forks from here on");
  sched::BiasedMutex mutex;
  mutex.lock();
  EXPECT_TRUE(in_forked_child([&] {
    int count = 0;
    const auto add = [&] {
      for (int k = 0; k < 20'000; ++k) {
        const std::lock_guard lock(mutex);
        count = count + 1;
      }
    };
    {
      const std::jthread other(add);
      add();
    }
    return count == 40'000 && mutex.is_torn();
  }));
  mutex.unlock();
}

/// Holds threads at their barriers in the parent, as long as `stay` is set.
struct HeldEnv : sched::StdEnv {
  static inline std::atomic<bool> stay{false}, is_there{false};
  static void light_barrier() noexcept {
    while (stay) {
      is_there = true;
      std::this_thread::yield();
    }
    StdEnv::light_barrier();
  }
};

// S14: a child sees that a thread of its parent was ending a use, for whose end it would wait for
// ever
TEST(SplitCountTest, TornWhereAThreadWasEndingAUse) {
  if (!HeldEnv::asymmetric()) GTEST_SKIP() << "threads have no counts of their own here";
  sched::SplitCount<HeldEnv> uses;
  for (int k = 0; k < 2; ++k) uses.begin();
  EXPECT_FALSE(uses.end(1));  // claims the bias
  EXPECT_FALSE(uses.is_torn());
  HeldEnv::stay = true;
  std::thread ends([&] { EXPECT_FALSE(uses.end(1)); });
  while (!HeldEnv::is_there) std::this_thread::yield();
  EXPECT_TRUE(in_forked_child([&] { return uses.is_torn(); }));
  HeldEnv::stay = false;
  ends.join();
  EXPECT_FALSE(uses.is_torn());
  EXPECT_TRUE(uses.let_go());
}

/// What threads of the parent do again and again, and children once, with things of their own.
struct Act {
  const char* name;
  std::function<bool()> act;
};

std::vector<Act> forked_acts() {
  return {
      {"Labels",
       [n = 0]() mutable {
         const std::string text = fmt::format("label {}", n++ % 1000);
         return text == sched::Label::intern(text).c_str();
       }},
      {"Timelines", [] { return sched::ExternalTimeline("own").next().accepted(); }},
      {"FailuresOfClosedTimelines",
       [] {
         Event failed;
         {
           sched::ExternalTimeline timeline("own");
           failed = timeline.next();
           static_cast<void>(timeline.signal(failed.ticket(), Status(ErrorCode::internal, "bad")));
         }
         return failed.status().code() == ErrorCode::internal;
       }},
      {"Logs",
       [] {
         set_log_hook([](LogLevel, std::string_view) {});
         log(LogLevel::error, "told");
         return true;
       }},
      {"Waits",
       [] {
         sched::DeviceOptions options;
         options.mode = sched::Mode::manual;
         Scheduler scheduler;
         const auto device = scheduler.new_device(options);
         sched::ExternalTimeline gate("gate");
         bool good = true;
         for (int k = 0; k < 50; ++k) {
           const Event awaited = gate.next(), waits = device.wait(awaited);
           scheduler.poll();
           static_cast<void>(gate.signal(awaited.ticket()));
           scheduler.poll();
           good = good && waits.done();
         }
         return good;
       }},
  };
}

class ForkedActTest : public testing::TestWithParam<Act> {};

// S14: what all of a process shares is as a forked child needs it, whatever other threads do there
TEST_P(ForkedActTest, DoesNotHang) {
  const std::function<bool()> act = GetParam().act;
  EXPECT_TRUE(act());
  std::atomic<bool> over{false};
  std::thread repeats([&over, act = GetParam().act] {
    while (!over) static_cast<void>(act());
  });
  for (std::uint64_t k = 0; k < 100 / test::slower && !HasFailure(); ++k)
    EXPECT_TRUE(in_forked_child(act)) << "fork " << k;
  over = true;
  repeats.join();
  set_log_hook({});
}

INSTANTIATE_TEST_SUITE_P(All, ForkedActTest, testing::ValuesIn(forked_acts()),
                         [](const auto& act) { return std::string(act.param.name); });
#endif

}  // namespace
}  // namespace heddle
