// Backends on a scheduler of the host's own, or of a simulation.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <latch>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "heddle/heddle.hpp"
#include "heddle/simulation.hpp"
#include "tests/support/failure.hpp"

namespace heddle {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

Backend open_on(const Scheduler& scheduler, std::optional<sched::Mode> mode = {},
                std::string name = "cc") {
  BackendOptions options;
  options.name = std::move(name);
  options.scheduler = scheduler;
  options.mode = mode;
  return Backend::open(options);
}

Device new_device(const Backend& backend) {
  return backend.physical_device(0).new_virtual_device();
}

Program add_one(const Tensor& x) {
  Index i;
  Program p("add_one");
  p << (x(i) += 1);
  return p;
}

// D13, S13: one of two backends on the host's scheduler is finalised: the other, and the host's own
// devices, go on, and the scheduler opens more
TEST(OwnSchedulerTest, FinalisingABackendEndsItsOwnDevicesOnly) {
  Scheduler scheduler;
  const sched::TaskDevice own = scheduler.new_device("host");
  const Backend one = open_on(scheduler), other = open_on(scheduler, sched::Mode::pooled);
  const Device first = new_device(one), second = new_device(other);
  const Tensor x("x", i32, {2});
  const Code code = one.compile(add_one(x));
  const Routine there = Context(first).link(code), here = Context(second).link(code);
  there.schedule();
  one.finalize();
  EXPECT_TRUE(first.is_idle());
  EXPECT_THAT(failure([&] { there.schedule(); }).to_string(), HasSubstr("was finalised"));
  EXPECT_EQ(failure([&] { static_cast<void>(new_device(one)); }).code(),
            ErrorCode::failed_precondition);
  here.schedule();
  EXPECT_THAT(here.context().read<std::int32_t>(x), ElementsAre(1, 1));
  EXPECT_TRUE(own.submit("of the host", [] {}).wait().ok());
  EXPECT_TRUE(scheduler.new_device("later").submit("task", [] {}).wait().ok());
  EXPECT_TRUE(new_device(other).submit("task", [] {}).wait().ok());
  one.finalize();  // idempotent
  other.finalize();
  EXPECT_TRUE(own.submit("of the host", [] {}).wait().ok());
}

// S13, D13: finalising gives its own devices' tasks until the deadline, and no other's
TEST(OwnSchedulerTest, FinalisingWaitsForNoTaskOfTheHost) {
  Scheduler scheduler;
  const sched::TaskDevice own = scheduler.new_device("host");
  const Backend backend = open_on(scheduler);
  const Device device = new_device(backend);
  std::latch begun(1);
  std::atomic<bool> released{false};
  const Event long_one = own.submit("long", [&] {
    begun.count_down();
    while (!released.load()) std::this_thread::sleep_for(1ms);
  });
  begun.wait();
  const Event ours = device.submit("task", [] {});
  backend.finalize();
  EXPECT_TRUE(ours.done());
  EXPECT_FALSE(long_one.done());
  released.store(true);
  EXPECT_TRUE(long_one.wait().ok()) << "nobody cancelled it";
}

// S17: a backend shows its devices, and its host's scheduler all of them
TEST(OwnSchedulerTest, SnapshotsAreOfItsOwnDevices) {
  Scheduler scheduler;
  const sched::TaskDevice own = scheduler.new_device("host");
  const Backend one = open_on(scheduler), other = open_on(scheduler);
  const Device a = new_device(one), b = new_device(other);
  ASSERT_THAT(one.snapshot(), SizeIs(1));
  EXPECT_EQ(one.snapshot()[0].id, a.timeline().id());
  ASSERT_THAT(other.snapshot(), SizeIs(1));
  EXPECT_EQ(other.snapshot()[0].id, b.timeline().id());
  EXPECT_THAT(scheduler.snapshot(), SizeIs(3));
}

// S15: one loop of the host runs its own tasks and those of a backend, whose poll() is the same
TEST(OwnSchedulerTest, TheHostsLoopRunsBoth) {
  Scheduler scheduler;
  sched::DeviceOptions in_loop;
  in_loop.name = "host";
  in_loop.mode = sched::Mode::manual;
  const sched::TaskDevice own = scheduler.new_device(in_loop);
  const Backend backend = open_on(scheduler, sched::Mode::manual);
  const Device device = new_device(backend);
  const Tensor x("x", i32, {2});
  const Routine run = Context(device).link(backend.compile(add_one(x)));
  for (const bool by_backend : {false, true}) {
    const Event computed = run.schedule();
    const Event told = own.submit("tell", [] {});
    EXPECT_FALSE(computed.done() || told.done());
    while (by_backend ? backend.poll() : scheduler.poll()) {
    }
    EXPECT_TRUE(computed.done() && told.done());
  }
  const Event again = run.schedule();
  EXPECT_EQ(backend.descriptor(), scheduler.descriptor());
  EXPECT_TRUE(backend.run_one(60s));
  EXPECT_TRUE(again.done());
  EXPECT_THAT(run.context().read<std::int32_t>(x), ElementsAre(3, 3));
  backend.finalize();
  const Event last = own.submit("last", [] {});
  EXPECT_TRUE(backend.poll()) << "the loop of a finalised backend is still the host's";
  EXPECT_TRUE(last.done());
}

// S15: the mode of a backend's devices is an option, without a scheduler of the host's too
TEST(OwnSchedulerTest, TheModeIsAnOption) {
  BackendOptions options;
  options.name = "cc";
  options.mode = sched::Mode::manual;
  const Backend backend = Backend::open(options);
  const Device device = new_device(backend);
  EXPECT_EQ(device.timeline().mode(), sched::Mode::manual);
  const Event event = device.submit("task", [] {});
  EXPECT_FALSE(event.done());
  EXPECT_TRUE(backend.poll());
  EXPECT_TRUE(event.done());
}

// Bad input: options that contradict each other, or would have no effect, say so
TEST(OwnSchedulerTest, ContradictoryOptionsAreRefused) {
  const Scheduler scheduler;
  const auto refused = [](const std::function<void(BackendOptions&)>& set) {
    BackendOptions options;
    options.name = "cc";
    set(options);
    const Status status = failure([&] { static_cast<void>(Backend::open(options)); });
    EXPECT_EQ(status.code(), ErrorCode::invalid_argument);
    return status.to_string();
  };
  const std::pair<const char*, std::function<void(SchedulerOptions&)>> of_schedulers[] = {
      {"workers", [](SchedulerOptions& o) { o.workers = 2; }},
      {"pin_workers", [](SchedulerOptions& o) { o.pin_workers = true; }},
      {"watchdog", [](SchedulerOptions& o) { o.watchdog = 1s; }},
      {"on_overdue", [](SchedulerOptions& o) { o.on_overdue = [](const auto&) {}; }},
      {"profile", [](SchedulerOptions& o) { o.profile.slots_ahead = 1; }}};
  for (const auto& [name, set] : of_schedulers) {
    EXPECT_THAT(refused([&](BackendOptions& o) {
                  o.scheduler = scheduler;
                  set(o.scheduling);
                }),
                AllOf(HasSubstr(std::string("scheduling.") + name), HasSubstr("host's own")));
  }
  EXPECT_THAT(refused([](BackendOptions& o) { o.scheduling.device.mode = sched::Mode::manual; }),
              HasSubstr("set BackendOptions::mode"));
  EXPECT_THAT(refused([](BackendOptions& o) { o.mode = sched::Mode::simulated; }),
              HasSubstr("of a Simulation"));
  EXPECT_THAT(refused([&](BackendOptions& o) {
                o.scheduler = scheduler;
                o.mode = sched::Mode::simulated;
              }),
              HasSubstr("no Simulation's"));
  Simulation simulation;
  EXPECT_THAT(refused([&](BackendOptions& o) {
                o.scheduler = simulation.scheduler();
                o.mode = sched::Mode::pooled;
              }),
              HasSubstr("leave it unset"));
  Scheduler gone;
  const Scheduler kept = std::move(gone);
  EXPECT_THAT(failure([&] { static_cast<void>(open_on(gone)); }).to_string(),  // NOLINT: that
              HasSubstr("empty Scheduler handle"));
}

// S18: a simulation runs the tensor runtime; compiles are done in the call, and the seed decides
// all else: a host in it may compile meanwhile, copy, merge and finalise
TEST(OwnSchedulerTest, ASimulationRunsTheRuntime) {
  const Tensor x("x", i32, {2}), y("y", i32, {2});
  const auto run = [&](std::uint64_t seed) {
    SimulationOptions options;
    options.seed = seed;
    options.faults.fill(false);
    Simulation simulation(options);
    const Backend backend = open_on(simulation.scheduler());
    const Device device = new_device(backend), beside = new_device(backend);
    EXPECT_EQ(device.timeline().mode(), sched::Mode::simulated);
    std::vector<std::int32_t> read;
    simulation.host("host", [&] {
      Index i;
      Program merging("merging");
      merging << (y(i) = merge(x)(i) * 10);
      const PendingCode pending = backend.compile_async(merging);
      EXPECT_TRUE(pending.done());
      const Routine count = Context(device).link(backend.compile(add_one(x)));
      const Routine consumer = Context(beside).link(pending);
      TransferOptions after;
      after.after = {count.schedule()};
      merge(consumer, count.context(), MergeMode::copy, {}, after);
      read = consumer.context().read<std::int32_t>(y);
      backend.finalize();
    });
    simulation.host("another", [&] { simulation.sleep_for(1us); });
    const SimulationReport report = simulation.run();
    EXPECT_TRUE(report.status.ok()) << report.status.to_string();
    EXPECT_THAT(read, ElementsAre(10, 10));
    return report.hash;
  };
  for (std::uint64_t seed = 1; seed <= 3; ++seed) EXPECT_EQ(run(seed), run(seed));
}

}  // namespace
}  // namespace heddle
