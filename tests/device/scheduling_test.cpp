// Scheduler features through Backend: queues, sites, snapshots, watchdog.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <latch>
#include <mutex>
#include <thread>

#include "tests/device/backends.hpp"

namespace heddle {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

class SchedulingTest : public testing::TestWithParam<std::string> {
 protected:
  static Backend open(SchedulerOptions scheduler) {
    BackendOptions options;
    options.name = GetParam();
    options.scheduling = std::move(scheduler);
    return Backend::open(options);
  }
  static Program increment(const Tensor& x) {
    Index i;
    Program p("count");
    p << (x(i) += 1);
    return p;
  }
};
HEDDLE_CONFORMANCE_SUITE(SchedulingTest);

// S4: policy of a full queue, and queue length, for schedules and transfers, set per backend
TEST_P(SchedulingTest, FullQueuesDoAsTheBackendSays) {
  SchedulerOptions scheduler;
  scheduler.device.queue_size = 4;
  scheduler.device.full = sched::FullPolicy::fail;
  const Backend backend = open(scheduler);
  const Device device = backend.physical_device(0).new_virtual_device();
  const Device beside = backend.physical_device(0).new_virtual_device();
  const Tensor x("x", HostArray({i32, {2}}));
  const Code code = backend.compile(increment(x));
  const Routine run = Context(device).link(code), other = Context(beside).link(code);
  device.await();
  sched::ExternalTimeline gate("gate");
  const Event opened = gate.next();
  device.wait(opened);
  for (int k = 0; k < 3; ++k) run.schedule();
  const std::function<void()> uses[] = {
      [&] { run.schedule(); }, [&] { run.context().write(x, std::vector<std::int32_t>(2)); },
      [&] { static_cast<void>(run.context().to_host(x)); },
      [&] { static_cast<void>(copy(x, other.context(), run.context())); }};
  for (const auto& use : uses) {
    const Status refused = failure(use);
    EXPECT_EQ(refused.code(), ErrorCode::exhausted);
    EXPECT_THAT(text(refused), AllOf(HasSubstr(device.name()), HasSubstr("4 tasks")));
  }
  // A call may override its backend's policy.
  ScheduleOptions patient;
  patient.full = sched::FullPolicy::deadline;
  patient.deadline = Event::Clock::now() + 20ms;
  TransferOptions slow;
  slow.full = patient.full;
  slow.deadline = patient.deadline;
  const std::function<void()> later[] = {
      [&] { run.schedule({}, patient); },
      [&] { static_cast<void>(run.context().from_host(x, slow)); },
      [&] { static_cast<void>(copy(x, other.context(), run.context(), slow)); },
      [&] { static_cast<void>(load_merge(device, x, other.context(), MergeMode::copy, slow)); }};
  for (const auto& use : later) EXPECT_EQ(failure(use).code(), ErrorCode::deadline);
  std::thread opener([&] {
    std::this_thread::sleep_for(20ms);
    EXPECT_TRUE(gate.signal(opened.ticket()).ok());
  });
  patient.full = sched::FullPolicy::block;
  EXPECT_TRUE(run.schedule({}, patient).wait().ok());
  opener.join();
  device.await();
  EXPECT_THAT(run.context().read<std::int32_t>(x), ElementsAre(4, 4));
}

// S10: failures name the line that submitted, where the backend records sites
TEST_P(SchedulingTest, FailuresNameTheirSiteWhereTheBackendRecordsIt) {
  SchedulerOptions scheduler;
  for (const bool recorded : {false, true}) {
    scheduler.device.record_sites = recorded;
    const Device device = open(scheduler).physical_device(0).new_virtual_device();
    const Event broken = device.submit("broken", [] { throw std::runtime_error("cable"); });
    const std::string said = text(broken.wait());
    EXPECT_THAT(said, HasSubstr("cable"));
    EXPECT_EQ(said.find("scheduling_test.cpp") != std::string::npos, recorded) << said;
  }
  // The recorded line is the caller's, not a line of heddle.
  scheduler.device.record_sites = true;
  const Backend backend = open(scheduler);
  const Device device = backend.physical_device(0).new_virtual_device();
  const Tensor x("x", i32, {2});
  CompileOptions traced;
  traced.trace_values = true;
  const Routine run = Context(device).link(backend.compile(increment(x), traced));
  ScheduleOptions throwing;
  throwing.contain = true;
  throwing.trace = [](const TracedValue&) { throw std::runtime_error("cable"); };
  const int line = __LINE__ + 1;
  const Event failed = run.schedule({}, throwing);
  const std::string here = "scheduling_test.cpp:" + std::to_string(line);
  EXPECT_THAT(text(failed.wait()), AllOf(HasSubstr("'count'"), HasSubstr(here)));
}

// S17: snapshots of a backend's devices: waiting tasks, their events, and the devices that end the
// waits
TEST_P(SchedulingTest, SnapshotsNameWhatDevicesWaitFor) {
  const Backend backend = open({});
  const Device device = backend.physical_device(0).new_virtual_device();
  const Tensor x("x", i32, {2});
  const Routine run = Context(device).link(backend.compile(increment(x)));
  device.await();
  sched::ExternalTimeline gate("sensor");
  const Event opened = gate.next();
  device.wait(opened);
  run.schedule();
  run.schedule();
  std::vector<sched::Snapshot> all;
  const auto until = std::chrono::steady_clock::now() + 10s;
  do {  // a worker needs a moment to start waiting
    all = backend.snapshot();
  } while (all.size() == 1 && all[0].signaller.empty() && std::chrono::steady_clock::now() < until);
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].device, device.name());
  EXPECT_EQ(all[0].id, device.timeline().id());
  EXPECT_GE(all[0].queued, 2u);
  EXPECT_THAT(all[0].signaller, HasSubstr("'sensor'"));
  EXPECT_TRUE(gate.signal(opened.ticket()).ok());
  device.await();
  EXPECT_EQ(backend.snapshot()[0].counters.done, device.timeline().counters().done);
}

// S17: a watchdog, requested when the backend is opened, reports waits that take too long
TEST_P(SchedulingTest, WatchdogsReportWaitsThatTakeTooLong) {
  std::mutex mutex;
  std::vector<sched::Snapshot> told;
  std::latch reported(1);
  std::once_flag once;
  SchedulerOptions scheduler;
  scheduler.watchdog = 20ms;
  scheduler.on_overdue = [&](const std::vector<sched::Snapshot>& snapshots) {
    std::call_once(once, [&] {
      const std::lock_guard lock(mutex);
      told = snapshots;
      reported.count_down();
    });
  };
  const Backend backend = open(scheduler);
  const Device device = backend.physical_device(0).new_virtual_device();
  const Device busy = backend.physical_device(0).new_virtual_device();
  sched::ExternalTimeline gate("sensor");
  const Event opened = gate.next();
  device.wait(opened);
  busy.submit("quick", [] {});
  reported.wait();
  EXPECT_TRUE(gate.signal(opened.ticket()).ok());
  const std::lock_guard lock(mutex);
  const auto overdue = std::ranges::find(told, true, &sched::Snapshot::overdue);
  ASSERT_NE(overdue, told.end());
  EXPECT_EQ(overdue->device, device.name());
  EXPECT_THAT(overdue->signaller, HasSubstr("'sensor'"));
}

// Bad input: options that no scheduler accepts are refused at opening
TEST_P(SchedulingTest, ImpossibleOptionsAreRefused) {
  SchedulerOptions none, never, full;
  none.workers = 0;
  never.watchdog = 0s;
  full.device.queue_size = 0;
  for (const SchedulerOptions& bad : {none, never, full}) {
    EXPECT_EQ(failure([&] { static_cast<void>(open(bad)); }).code(), ErrorCode::invalid_argument);
  }
}

}  // namespace
}  // namespace heddle
