// Failures on a device: reports, and usability afterwards.
#include <chrono>
#include <functional>
#include <latch>
#include <mutex>
#include <span>
#include <thread>

#include "tests/device/backends.hpp"

namespace heddle {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

class FailuresTest : public Conformance {
 protected:
  /// A routine that adds 1 to `x`.
  Routine counter(const Device& on, const Tensor& x) const {
    Index i;
    Program p("count");
    p << (x(i) += 1);
    return Context(on).link(backend.compile(p));
  }
};
HEDDLE_CONFORMANCE_SUITE(FailuresTest);

// S6, S10, O13, O15: a host thread inside a wait when a task fails is woken with the cause, on the
// device and on a device that waits for it; a later await returns the same cause
TEST_P(FailuresTest, HostsInsideAwaitAreToldOfTheFailure) {
  const Device other = backend.physical_device(0).new_virtual_device();
  sched::ExternalTimeline gate("gate");
  const Event opened = gate.next();
  device.wait(opened);
  const Event broken = device.submit("broken", [] { throw std::runtime_error("cable"); });
  other.wait(broken);
  const Event behind = other.submit("behind", [] { ADD_FAILURE() << "ran after a failed wait"; });
  std::latch waiting(3);
  std::vector<Status> told(3);
  const auto host = [&](std::size_t k, const auto& wait) {
    return std::thread([&, k, wait] {
      waiting.count_down();
      told[k] = wait();
    });
  };
  std::vector<std::thread> hosts;
  hosts.push_back(host(0, [&] { return failure([&] { device.await(); }); }));
  hosts.push_back(host(1, [&] { return broken.wait(); }));
  hosts.push_back(host(2, [&] { return behind.wait(); }));
  waiting.wait();
  std::this_thread::sleep_for(20ms);  // to let the threads enter the wait
  EXPECT_FALSE(broken.done());
  EXPECT_TRUE(gate.signal(opened.ticket()).ok());
  for (auto& thread : hosts) thread.join();
  for (const Status& status : told)
    EXPECT_THAT(text(status), AllOf(HasSubstr("'broken'"), HasSubstr("cable")));
  EXPECT_EQ(failure([&] { device.await(); }), told[0]);
  EXPECT_THAT(text(failure([&] { other.await(); })), HasSubstr("cable"));
  for (const Device& failed : {device, other}) failed.recover();
  const Tensor x("x", i32, {2});
  for (const Device& again : {device, other}) {
    const Routine run = counter(again, x);
    run.schedule();
    EXPECT_THAT(run.context().read<std::int32_t>(x), ElementsAre(1, 1));
  }
}

// S13, D13, O44: a failed device neither keeps other devices from closing nor loses its cause
TEST_P(FailuresTest, ClosingABackendClosesEveryDevice) {
  const Device other = backend.physical_device(0).new_virtual_device();
  sched::ExternalTimeline gate("gate");
  const Event opened = gate.next();
  const Event broken = device.submit("broken", [] { throw std::runtime_error("cable"); });
  EXPECT_FALSE(broken.wait().ok());
  other.wait(opened);
  bool ran = false;
  const Event last = other.submit("last", [&] { ran = true; });
  EXPECT_TRUE(gate.signal(opened.ticket()).ok());
  static_cast<void>(failure([&] { backend.finalize(); }));
  EXPECT_TRUE(last.status().ok());
  EXPECT_TRUE(ran);
  EXPECT_THAT(text(broken.status()), HasSubstr("cable"));
  for (const Device& closed : {device, other})
    EXPECT_FALSE(closed.submit("late", [] { ADD_FAILURE() << "ran though closed"; }).accepted());
}

// S7, S8, S13: an event of a closed device keeps its final state, for hosts and for devices that
// wait
TEST_P(FailuresTest, EventsOfAClosedDeviceAreSettled) {
  const Device closing = backend.physical_device(0).new_virtual_device();
  sched::ExternalTimeline never("never");
  const Event good = closing.submit("good", [] {});
  EXPECT_TRUE(good.wait().ok());
  closing.wait(never.next());
  const Event lost = closing.submit("lost", [] { ADD_FAILURE() << "ran though cancelled"; });
  closing.finalize(1ms);
  EXPECT_EQ(lost.wait().code(), ErrorCode::cancelled);
  device.wait(good);
  const Tensor x("x", i32, {2});
  const Routine run = counter(device, x);
  EXPECT_TRUE(run.schedule().wait().ok());
  device.wait(lost);
  EXPECT_THAT(text(device.submit("after", [] {}).wait()), HasSubstr("cancelled"));
  device.recover();
  EXPECT_TRUE(run.schedule().wait().ok());
  EXPECT_THAT(run.context().read<std::int32_t>(x), ElementsAre(2, 2));
}

// D13, O21: a finalised context refuses every use by name; its routine's device stays usable
TEST_P(FailuresTest, FinalisedContextsRefuseEveryUse) {
  const Tensor x("x", HostArray({i32, {2}}));
  const Device other = backend.physical_device(0).new_virtual_device();
  const Routine run = counter(device, x), there = counter(other, x);
  const Context gone = run.context(), here = there.context();
  gone.finalize();
  const std::function<void()> uses[] = {
      [&] { static_cast<void>(gone.read<std::int32_t>(x)); },
      [&] { gone.write(x, std::vector<std::int32_t>(2)); },
      [&] { static_cast<void>(gone.from_host(x)); },
      [&] { static_cast<void>(gone.to_host(x)); },
      [&] { static_cast<void>(gone.view(x)); },
      [&] { static_cast<void>(gone.link(run.code())); },
      [&] { static_cast<void>(copy(x, gone, here)); },
      [&] { static_cast<void>(copy(x, here, gone)); },
      [&] { static_cast<void>(load_merge(other, x, gone, MergeMode::copy)); },
      [&] { run.schedule(); }};
  for (const auto& use : uses) {
    const Status refused = failure(use);
    EXPECT_EQ(refused.code(), ErrorCode::failed_precondition);
    EXPECT_THAT(text(refused), AllOf(HasSubstr(gone.label()), HasSubstr("finalised")));
  }
  EXPECT_TRUE(counter(device, x).schedule().wait().ok());
  there.schedule();
  EXPECT_THAT(here.read<std::int32_t>(x), ElementsAre(1, 1));
}

// O51: refuses a host array of a different type or count, and a tensor absent from the context
TEST_P(FailuresTest, WrongTypesAndCountsAreRefusedByName) {
  const Tensor x("x", i32, {3});
  const Routine run = counter(device, x);
  const Context& here = run.context();
  const auto refusal = [](const auto& f) {
    const Status status = failure(f);
    EXPECT_EQ(status.code(), ErrorCode::invalid_argument);
    return text(status);
  };
  EXPECT_THAT(refusal([&] { static_cast<void>(here.read<float>(x)); }),
              AllOf(HasSubstr("'x'"), HasSubstr("i32[3]"), HasSubstr("f32")));
  EXPECT_THAT(refusal([&] { here.write(x, std::vector<float>(3)); }), HasSubstr("f32"));
  EXPECT_THAT(refusal([&] { here.write(x, std::vector<std::int32_t>(2)); }),
              AllOf(HasSubstr("'x'"), HasSubstr("3 elements"), HasSubstr("2 elements")));
  const BufferView wide(Buffer::allocate(device, {i64, {3}}), {i64, {3}});
  EXPECT_THAT(refusal([&] { static_cast<void>(Context(device).with(x, wide)); }),
              AllOf(HasSubstr("'x'"), HasSubstr("i32[3]"), HasSubstr("i64[3]")));
  EXPECT_THAT(refusal([&] {
                static_cast<void>(
                    Buffer::allocate(device, {f64, {std::int64_t{1} << 61, std::int64_t{4}}}));
              }),
              AllOf(HasSubstr("f64[2305843009213693952,4]"), HasSubstr("63 bits")));
  const Tensor huge("huge", i8, {std::int64_t{1} << 60});
  const Status missing = failure([&] { static_cast<void>(here.read<std::int8_t>(huge)); });
  // reported before memory is allocated for the values
  EXPECT_EQ(missing.code(), ErrorCode::not_found);
  EXPECT_THAT(text(missing), HasSubstr("'huge'"));
  run.schedule();
  EXPECT_THAT(here.read<std::int32_t>(x), ElementsAre(1, 1, 1));
}

// J1: truth values are written and read like any other type
TEST_P(FailuresTest, TruthValuesAreReadAndWritten) {
  const Tensor flags("flags", bool_, {3}), flipped("flipped", bool_, {3});
  Index i;
  Program p("flip");
  p << (flipped(i) = !flags(i));
  const Routine run = Context(device).link(backend.compile(p));
  run.context().write(flags, std::vector<bool>{true, false, true});
  run.schedule();
  EXPECT_THAT(run.context().read<bool>(flipped), ElementsAre(false, true, false));
}

// S10, O57: a trace hook that throws fails only its own run
TEST_P(FailuresTest, ThrowingTraceHookFailsItsRunOnly) {
  const Tensor x("x", i32, {4});
  Index i;
  Program p("traced");
  p << (x(i) += 1);
  CompileOptions options;
  options.trace_values = true;
  const Routine run = Context(device).link(backend.compile(p, options));
  ScheduleOptions bad;
  bad.contain = true;
  int calls = 0;
  bad.trace = [&](const TracedValue&) {
    ++calls;
    throw std::runtime_error("no room for traces");
  };
  EXPECT_THAT(text(run.schedule({}, bad).wait()),
              AllOf(HasSubstr("'traced'"), HasSubstr("no room for traces")));
  EXPECT_EQ(calls, 1);
  EXPECT_THAT(text(failure([&] { run.schedule(); })),
              AllOf(HasSubstr("'x'"), HasSubstr("not written"), HasSubstr("no room for traces")));
  run.context().write(x, std::vector<std::int32_t>(4));
  EXPECT_TRUE(run.schedule().wait().ok());
}

// S8, S10: a failed event that a call lists fails only that call, and the device stays usable; a
// failed event that the device waits for fails the device
TEST_P(FailuresTest, AFailedEventEndsTheCallThatListsIt) {
  const Device other = backend.physical_device(0).new_virtual_device();
  const Tensor x("x", f32, {2}), y("y", f32, {2});
  Index i;
  Program gather("gather");
  gather << (x(i) += merge(x)(i));
  const Routine here = counter(device, x), there = counter(other, x), apart = counter(other, y);
  const Routine gathers = there.context().link(backend.compile(gather));
  const Context &from = here.context(), to = there.context();
  Recording recording("both");
  recording.schedule(there);
  recording.copy(x, to, from);
  recording.schedule(apart);  // independent of the calls above
  const Replay replay = recording.finish();
  EXPECT_EQ(replay.num_tasks(), 3U);
  sched::ExternalTimeline gate("gate");
  using Events = std::vector<Event>;
  const std::function<Events(const Event&)> calls[] = {
      [&](const Event& after) { return Events{there.schedule({}, {.after = {after}})}; },
      [&](const Event& after) { return Events{copy(x, from, to, {.after = {after}}).event}; },
      [&](const Event& after) {
        return Events{merge(gathers, from, MergeMode::copy, {}, {{after}})};
      },
      [&](const Event& after) { return replay.run({}, {.after = {after}}); }};
  for (const auto& call : calls) {
    to.write(x, std::vector<float>(2, 5));
    from.write(x, std::vector<float>(2, 7));
    const auto before = other.timeline().counters();
    const Event failed = gate.next();
    const Events ends = call(failed);
    EXPECT_TRUE(gate.signal(failed.ticket(), Status(ErrorCode::internal, "cable")).ok());
    for (const Event& each : ends) EXPECT_THAT(text(each.wait()), HasSubstr("cable"));
    other.await();
    device.await();
    const auto after = other.timeline().counters();
    EXPECT_EQ(after.done, before.done);
    EXPECT_EQ(after.skipped - before.skipped, after.submitted - before.submitted);
    EXPECT_THAT(text(failure([&] { there.schedule(); })),
                AllOf(HasSubstr("not written"), HasSubstr("cable")));
    to.write(x, std::vector<float>(2, 1));
    EXPECT_TRUE(there.schedule().wait().ok());
    EXPECT_THAT(to.read<float>(x), Each(2));
  }
  const Event failed = gate.next();
  other.wait(failed);
  EXPECT_TRUE(gate.signal(failed.ticket(), Status(ErrorCode::internal, "cable")).ok());
  EXPECT_THAT(text(failure([&] { other.await(); })), HasSubstr("cable"));
  EXPECT_THAT(text(failure([&] { there.schedule(); })), HasSubstr("cable"));
}

// D4, S16: a transfer that could only run after the task that waits for it is refused before
// submission
TEST_P(FailuresTest, ReadingAndWritingInATaskOfTheDeviceIsRefused) {
  const Tensor x("x", f32, {2});
  const Routine run = counter(device, x);
  const Context& here = run.context();
  run.schedule();
  device.await();
  const std::vector<float> sevens{7, 7};
  const std::function<void()> waits[] = {[&] { static_cast<void>(here.read<float>(x)); },
                                         [&] { here.write(x, sevens); }};
  for (const auto& wait : waits) {
    Status refused;
    const std::uint64_t before = device.timeline().counters().submitted;
    EXPECT_TRUE(device.submit("peek", [&] { refused = failure(wait); }).wait().ok());
    EXPECT_EQ(device.timeline().counters().submitted, before + 1);
    EXPECT_EQ(refused.code(), ErrorCode::failed_precondition);
    EXPECT_THAT(text(refused), AllOf(HasSubstr("'peek'"), HasSubstr("'x'"), HasSubstr("to_host")));
  }
  EXPECT_THAT(here.read<float>(x), ElementsAre(1, 1));
}

// D4, S12: after a wait that ends before the transfer, the device does not touch the caller's
// memory
TEST_P(FailuresTest, TransfersOutliveWaitsButTouchNoMemoryOfTheCaller) {
  constexpr std::size_t count = 1000;
  const Tensor x("x", f32, {count});
  const Device other = backend.physical_device(0).new_virtual_device();
  const Routine run = counter(device, x);
  const Context& here = run.context();
  run.schedule();
  device.await();
  sched::ExternalTimeline gate("gate");
  std::vector<float> mine;
  std::vector<std::vector<float>> later;
  const std::function<void()> waits[] = {[&] { static_cast<void>(here.read<float>(x)); },
                                         [&] { here.write(x, mine); }};
  for (const auto& wait : waits) {
    mine.assign(count, 7);
    const Event opened = gate.next();
    device.wait(opened);
    std::latch inside(1);
    Status ended;
    const Event stopped = other.submit("peek", [&] {
      inside.count_down();
      ended = failure(wait);
    });
    inside.wait();
    other.cancel_pending();
    static_cast<void>(stopped.wait());
    EXPECT_EQ(ended.code(), ErrorCode::cancelled) << text(ended);
    mine.assign(count, 9);
    // reuse the memory of `read`'s values
    for (int k = 0; k < 10; ++k) later.emplace_back(count, 0);
    EXPECT_TRUE(gate.signal(opened.ticket()).ok());
    device.await();
    EXPECT_THAT(later, Each(Each(0)));
  }
  EXPECT_THAT(here.read<float>(x), Each(7));
  EXPECT_THAT(mine, Each(9));
}

// S10, S13: heddle queries the end of uses to order later uses, and to explain a refused
// submission; a failure that the program never queried is logged anyway
TEST_P(FailuresTest, WhatHeddleAsksForItselfStaysUnseen) {
  struct Setup {
    const Device device, other;
    const Tensor x;
    const Buffer buffer;
    const Routine run, consumer;
    BufferView view() const { return BufferView(buffer, x.type()); }
  };
  const auto broken_load = [](const Setup& s) {
    sched::ExternalTimeline gate("gate");
    TransferOptions options;
    options.after = {gate.next()};
    const Transfer loaded = load_merge(s.consumer, s.run.context(), MergeMode::copy, options);
    EXPECT_TRUE(gate.signal(1, Status(ErrorCode::internal, "unseen")).ok());
    return loaded.event;
  };
  const auto broken_run = [](const Setup& s) {
    ScheduleOptions failing;
    failing.trace = [](const TracedValue&) { throw std::runtime_error("unseen"); };
    return s.run.schedule({}, failing);
  };
  std::vector<float> values(2);
  struct Case {
    std::function<Event(const Setup&)> breaks;
    std::function<void(const Setup&)> asks;
  };
  const Case cases[] = {
      {broken_run,
       [&](const Setup& s) { s.view().from_host(s.other, std::as_bytes(std::span(values))); }},
      {broken_run, [&](const Setup& s) { static_cast<void>(s.buffer.donate()); }},
      {broken_run, [&](const Setup& s) { s.device.submit("refused", [] {}); }},
      {broken_load,
       [&](const Setup& s) { EXPECT_FALSE(failure([&] { s.consumer.schedule(); }).ok()); }}};
  Index i;
  CompileOptions traced;
  traced.trace_values = true;
  for (const Case& one : cases) {
    std::mutex mutex;
    std::vector<std::string> lines;
    set_log_hook([&](LogLevel /*level*/, std::string_view line) {
      const std::lock_guard lock(mutex);
      lines.emplace_back(line);
    });
    {
      const Device here = backend.physical_device(0).new_virtual_device();
      const Tensor x("x", f32, {2});
      const Buffer buffer = Buffer::allocate(here, x.type());
      Program fill("fill"), add("add");
      fill << (x(i) = Expr(1.0));
      add << (x(i) += merge(x)(i));
      const Context context = Context(here).with(x, BufferView(buffer, x.type()));
      const Setup setup{here,
                        device,
                        x,
                        buffer,
                        context.link(backend.compile(fill, traced)),
                        context.link(backend.compile(add))};
      here.await();
      const Event broken = one.breaks(setup);
      while (!broken.done()) std::this_thread::sleep_for(1ms);
      one.asks(setup);
    }
    device.await();
    set_log_hook({});
    EXPECT_THAT(lines, ElementsAre(HasSubstr("unseen")));
  }
}

}  // namespace
}  // namespace heddle
