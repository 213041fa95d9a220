// Bounds and ends: full queues, cancelling, shutting down, one producer, what is left behind, logs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>

#include <atomic>
#include <filesystem>
#include <iterator>
#include <latch>
#include <thread>

#include "heddle/observe.hpp"
#include "heddle/scheduler.hpp"
#include "scheduler/sanitizers.hpp"
#include "tests/support/failure.hpp"
#include "tests/support/threads.hpp"
#include "tests/unit/scheduler/allocations.hpp"
#include "tests/unit/scheduler/device_fixture.hpp"

namespace heddle {
namespace {

using namespace std::chrono_literals;
using sched::DeviceOptions;
using sched::FullPolicy;
using sched::Mode;
using sched::TaskDevice;
using testing::HasSubstr;

class LimitsTest : public DeviceTest {};
HEDDLE_DEVICE_SUITE(LimitsTest);

// S4, O12: a full queue frees one slot at a time
TEST_P(LimitsTest, FullQueueRefusesOrWaitsForOneSlot) {
  const TaskDevice device = open("work", 2);
  sched::ExternalTimeline gate("gate");
  const Event first = gate.next();
  const Event second = gate.next();
  device.wait(first);
  device.wait(second);
  sched::SubmitOptions fail;
  fail.full = FullPolicy::fail;
  const Event refused = device.submit("too many", [] {}, fail);
  EXPECT_FALSE(refused.accepted());
  EXPECT_EQ(refused.status().code(), ErrorCode::exhausted);
  EXPECT_THAT(text(refused.status()), testing::AllOf(HasSubstr("'work'"), HasSubstr("2 tasks")));
  sched::SubmitOptions late;
  late.full = FullPolicy::deadline;
  late.deadline = Event::Clock::now() + 20ms;
  EXPECT_EQ(device.submit("late", [] {}, late).status().code(), ErrorCode::deadline);
  std::thread opener([&] { EXPECT_TRUE(gate.signal(first.ticket()).ok()); });
  const Event accepted =
      device.submit("fits", [] {});  // blocks until one slot frees, not until idle
  EXPECT_TRUE(accepted.accepted());
  EXPECT_FALSE(accepted.done());
  opener.join();
  EXPECT_TRUE(gate.signal(second.ticket()).ok());
  EXPECT_TRUE(device.await().ok());
}

TEST_P(LimitsTest, ImpossibleCapacitiesAreRefused) {
  for (const std::uint32_t capacity : {std::uint32_t{0}, sched::queue_size_max + 1}) {
    try {
      open("work", capacity);
      ADD_FAILURE() << capacity;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
      EXPECT_THAT(error.what(), testing::AllOf(HasSubstr("'work'"), HasSubstr("1 to 1048576")));
    }
  }
  EXPECT_TRUE(open("largest", sched::queue_size_max).submit("task", [] {}).wait().ok());
}

// S5
TEST_P(LimitsTest, NegativeSpinsAreRefused) {
  DeviceOptions o = options("work");
  o.spin = std::chrono::nanoseconds(-1);
  EXPECT_THAT([&] { static_cast<void>(scheduler_.new_device(o)); },
              testing::ThrowsMessage<Error>(HasSubstr("'work': spin -1 ns (expected 0 or more)")));
}

// S5: nor does a scheduler take them for all its devices
TEST(SchedulerLimitsTest, ProfilesOfNegativeSpinsAreRefused) {
  SchedulerOptions o;
  o.name = "busy";
  o.profile.spin = std::chrono::nanoseconds(-1);
  const Status status = failure([&] { static_cast<void>(Scheduler(o)); });
  EXPECT_EQ(status.code(), ErrorCode::invalid_argument);
  EXPECT_THAT(text(status), HasSubstr("'busy': profile.spin -1 ns (expected 0 or more)"));
}

// S4, S15: where there is no memory for a device, a queue that is no longer than usual is not to
// blame
TEST(DeviceMemoryTest, LongQueuesAloneAreToBlame) {
  Scheduler scheduler;
  const auto refused = [&](std::uint32_t queue_size) {
    DeviceOptions o;
    o.mode = Mode::inline_;
    o.name = "work";
    o.queue_size = queue_size;
    return failure([&] {
      const NoLargeMemory small(600);
      static_cast<void>(scheduler.new_device(o));
    });
  };
  const Status usual = refused(4096), large = refused(8192);
  EXPECT_EQ(usual.code(), ErrorCode::exhausted);
  EXPECT_THAT(text(usual), testing::AllOf(HasSubstr("'work'"), HasSubstr("max_map_count"),
                                          testing::Not(HasSubstr("queue_size"))));
  EXPECT_THAT(text(large), HasSubstr("a queue of 8192 tasks; lower its queue_size"));
}

// S4: a task that fills its own queue gets exhausted
TEST_P(LimitsTest, TaskOnItsOwnFullQueueIsRefused) {
  const TaskDevice device = open("work", 2);
  std::optional<TaskDevice> captured = device;
  Status last;
  device.submit("greedy", [&] {
    for (int k = 0; k < 3 && last.ok(); ++k) last = captured->submit("more", [] {}).status();
  });
  EXPECT_TRUE(device.await().ok());
  EXPECT_EQ(last.code(), ErrorCode::exhausted);
}

// S12
TEST_P(LimitsTest, CancelEndsQueuedTasksAndStopsAWait) {
  const TaskDevice device = open("work");
  sched::ExternalTimeline never("never");
  device.wait(never.next());
  std::vector<Event> queued;
  for (int k = 0; k < 3; ++k)
    queued.push_back(device.submit("queued", [] { ADD_FAILURE() << "ran though cancelled"; }));
  device.cancel_pending();
  EXPECT_TRUE(device.await().ok());
  for (const Event& event : queued) EXPECT_EQ(event.status().code(), ErrorCode::cancelled);
  bool stopped = true;
  EXPECT_TRUE(device.submit("next", [&] { stopped = this_task::stop_token().stop_requested(); })
                  .wait()
                  .ok());
  EXPECT_FALSE(stopped);
  const auto c = device.counters();
  EXPECT_EQ(c.submitted, c.done + c.failed + c.skipped + c.cancelled);
}

// S12: after a cancel all tokens of a task are of one source, which the next cancel asks by
TEST_P(LimitsTest, TokensOfATaskAreOfOneSource) {
  const TaskDevice device = open("work");
  const TaskDevice inside = device;
  device.cancel_pending();
  bool same = false, early = true, stopped = false;
  EXPECT_TRUE(device
                  .submit("asks twice",
                          [&] {
                            const std::stop_token first = this_task::stop_token();
                            const std::stop_token second = this_task::stop_token();
                            same = first == second;
                            early = first.stop_requested();
                            inside.cancel_pending();
                            stopped = first.stop_requested() && second.stop_requested() &&
                                      this_task::stop_token().stop_requested();
                          })
                  .wait()
                  .ok());
  EXPECT_TRUE(same);
  EXPECT_FALSE(early);
  EXPECT_TRUE(stopped);
}

// S12, S10: a cancel excuses nothing that comes after it
TEST_P(LimitsTest, GivingUpUnaskedAfterACancelIsAFailure) {
  const TaskDevice device = open("work");
  device.cancel_pending();
  const Event task = device.submit(
      "gives up", [] { return Status(ErrorCode::cancelled, "nobody asked for that"); });
  EXPECT_EQ(task.wait().code(), ErrorCode::device_failed);
  EXPECT_EQ(device.status().code(), ErrorCode::device_failed);
  EXPECT_TRUE(device.recover().ok());
}

// S13, O44
TEST_P(LimitsTest, ShutdownDrainsThenRefuses) {
  const TaskDevice device = open("work");
  int ran = 0;
  for (int k = 0; k < 100; ++k) device.submit("step", [&] { ++ran; });
  EXPECT_TRUE(device.shutdown(10s).ok());
  EXPECT_EQ(ran, 100);
  const Event refused = device.submit("late", [] {});
  EXPECT_EQ(refused.status().code(), ErrorCode::unavailable);
  EXPECT_TRUE(device.shutdown(1s).ok());
  EXPECT_TRUE(scheduler_.shutdown(1s).ok());
  EXPECT_THROW(static_cast<void>(open("another")), Error);
}

// S13: bounded, whatever the device waits for
TEST_P(LimitsTest, ShutdownCancelsAtTheDeadline) {
  const TaskDevice device = open("work");
  sched::ExternalTimeline never("never");
  device.wait(never.next());
  const Event queued = device.submit("queued", [] {});
  EXPECT_TRUE(device.shutdown(10ms).ok());
  EXPECT_EQ(queued.status().code(), ErrorCode::cancelled);
}

// S13, S16: the last handle may go inside the device's own task
TEST_P(LimitsTest, LastHandleMayGoInsideItsOwnTask) {
  std::latch released(1);
  Event event;
  {
    auto device = std::make_shared<TaskDevice>(open("suicidal"));
    std::weak_ptr<TaskDevice> weak = device;
    auto* const raw = device.get();
    event = raw->submit("last", [device = std::move(device), &released]() mutable {
      device.reset();
      released.count_down();
    });
  }
  run_ready();
  released.wait();
  EXPECT_TRUE(event.wait().ok());
}

// S10, S13: also of a task with options, whose failure is not lost with the device
TEST_P(LimitsTest, LastHandleMayGoInsideATaskWithOptions) {
  sched::SubmitOptions contain;
  contain.contain = true;
  std::optional<Scheduler> scheduler(std::in_place);
  std::latch released(1);
  Event event;
  {
    auto device = std::make_shared<TaskDevice>(scheduler->new_device(options("suicidal")));
    if (GetParam() == Mode::inline_) scheduler.reset();
    auto* const raw = device.get();
    event = raw->submit(
        "last",
        [device = std::move(device), &released]() mutable {
          device.reset();
          released.count_down();
          throw std::runtime_error("in the last task");
        },
        contain);
  }
  if (scheduler) scheduler->poll();
  released.wait();
  EXPECT_EQ(event.wait().code(), ErrorCode::device_failed);
  EXPECT_EQ(event.status().root().message(), "in the last task");
}

// S4
TEST_P(LimitsTest, SingleProducerRefusesASecondThread) {
  DeviceOptions o = options("solo");
  o.single_producer = true;
  const TaskDevice device = scheduler_.new_device(o);
  EXPECT_TRUE(device.submit("mine", [] {}).accepted());
  std::thread([&] {
    const Event refused = device.submit("theirs", [] {});
    EXPECT_EQ(refused.status().code(), ErrorCode::failed_precondition);
    EXPECT_THAT(text(refused.status()), HasSubstr("single_producer"));
  }).join();
  EXPECT_TRUE(device.submit("mine again", [] {}).wait().ok());
}

// S15: any number of inline devices, no thread
TEST(InlineDeviceTest, RunsOnTheCaller) {
  Scheduler scheduler;
  DeviceOptions o;
  o.mode = Mode::inline_;
  const TaskDevice device = scheduler.new_device(o);
  std::thread::id where;
  device.submit("here", [&] { where = std::this_thread::get_id(); });
  EXPECT_EQ(where, std::this_thread::get_id());
}

// S15: a device whose thread cannot be started says so, and what to do; others can be opened after
TEST(ThreadedDeviceTest, IsRefusedWhereThreadsCannotStart) {
  Scheduler scheduler;
  DeviceOptions o;
  o.mode = Mode::threaded;
  o.name = "work";
  pthread_attr_t before;
  ASSERT_EQ(pthread_getattr_default_np(&before), 0);
  pthread_attr_t vast = before;
  ASSERT_EQ(pthread_attr_setstacksize(&vast, std::size_t{1} << 60), 0);
  ASSERT_EQ(pthread_setattr_default_np(&vast), 0);
  const Status refused = failure([&] { static_cast<void>(scheduler.new_device(o)); });
  ASSERT_EQ(pthread_setattr_default_np(&before), 0);
  pthread_attr_destroy(&before);
  EXPECT_EQ(refused.code(), ErrorCode::unavailable);
  EXPECT_THAT(text(refused), testing::AllOf(HasSubstr("'work'"), HasSubstr("limit on threads"),
                                            HasSubstr("address space"), HasSubstr("mode inline")));
  EXPECT_TRUE(scheduler.new_device(o).submit("task", [] {}).wait().ok());
}

// S4: two running tasks blocked on each other's full queues
TEST(CycleTest, OneOfTwoMutuallyBlockedTasksIsRefused) {
  Scheduler scheduler;
  DeviceOptions o;
  o.queue_size = 1;
  o.name = "a";
  const TaskDevice a = scheduler.new_device(o);
  o.name = "b";
  const TaskDevice b = scheduler.new_device(o);
  std::latch both(2);
  std::atomic<int> refused{0};
  const auto cross = [&](const TaskDevice& other) {
    both.arrive_and_wait();
    if (other.submit("cross", [] {}).status().code() == ErrorCode::exhausted) ++refused;
  };
  a.submit("to b", [&] { cross(b); });
  b.submit("to a", [&] { cross(a); });
  EXPECT_TRUE(a.await().ok());
  EXPECT_TRUE(b.await().ok());
  EXPECT_EQ(refused, 1);
}

// S14: ten thousand open and close cycles leave no thread and no descriptor behind
TEST(LifecycleTest, OpenAndCloseLeavesNothing) {
#if defined(HEDDLE_ASAN) || defined(HEDDLE_TSAN)
  constexpr int cycles = 1000;  // ten times slower there: each cycle starts a thread
#else
  constexpr int cycles = 10'000;
#endif
  const auto descriptors = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {});
  };
  const LiveThreads threads;
  const auto open_before = descriptors();
  for (int k = 0; k < cycles; ++k) {
    SchedulerOptions options;
    options.workers = 1;
    options.device.mode = k % 2 == 0 ? Mode::threaded : Mode::pooled;
    Scheduler scheduler(options);
    const TaskDevice device = scheduler.new_device("cycle");
    device.submit("one", [] {});
  }
  EXPECT_TRUE(threads.others_end());
  EXPECT_EQ(descriptors(), open_before);
}

// S21
TEST(LogTest, GoesToTheHookAboveTheLevel) {
  std::vector<std::string> lines;
  set_log_hook([&](LogLevel, std::string_view line) { lines.emplace_back(line); });
  log(LogLevel::info, "quiet");
  log(LogLevel::error, "loud");
  set_log_hook({});
  EXPECT_THAT(lines, testing::ElementsAre("loud"));
}

}  // namespace
}  // namespace heddle
