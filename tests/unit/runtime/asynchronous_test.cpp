// Devices whose queues run ahead: tasks are issued, end when the device says so, and keep what they
// use until then. The device is held where something has not ended.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <cstring>
#include <future>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "heddle/heddle.hpp"
#include "jit/code/code.hpp"
#include "jit/system/inside.hpp"
#include "runtime/memory/buffer_state.hpp"
#include "tests/support/failure.hpp"
#include "tests/unit/runtime/asynchronous_fixture.hpp"

namespace heddle {
namespace {

using namespace std::chrono_literals;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

class AsynchronousTest : public AsynchronousFixture {
 protected:
  /// The code with another list of steps.
  template <class Change>
  static Code changed(const Code& code, const Change& change) {
    auto data = std::make_shared<jit::CodeData>(*Inside::of(code));
    auto core = std::make_shared<jit::Core>(*data->core);
    change(core->steps);
    data->core = std::move(core);
    return Inside::make<Code>(std::move(data));
  }
};

// S23: copies have not ended when they were asked for
TEST_F(AsynchronousTest, CopiesEndWhenTheBytesAreThere) {
  const BufferView from = new_view(), to = new_view();
  EXPECT_TRUE(write(from, {1, 2, 3, 4}).wait().ok());
  physical->hold();
  const Event copied = to.copy_from(device, from);
  wait_until_asked(1);
  EXPECT_FALSE(copied.wait_for(20ms).ok());
  physical->resume();
  EXPECT_TRUE(copied.wait().ok());
  EXPECT_THAT(read(to), ElementsAre(1, 2, 3, 4));
}

// S23: nor a launch
TEST_F(AsynchronousTest, LaunchesEndWhenTheKernelHas) {
  const Routine run = Context(device).link(compile(backend, x, 1));
  device.await();
  physical->hold();
  const Event launched = run.schedule();
  wait_until_asked(1);
  EXPECT_FALSE(launched.wait_for(20ms).ok());
  physical->resume();
  EXPECT_TRUE(launched.wait().ok());
  EXPECT_THAT(run.context().read<float>(x), Each(1));
}

// S23: a device begins tasks before those ahead of them have ended
TEST_F(AsynchronousTest, TasksFollowWithoutWaiting) {
  const Routine run = Context(device).link(compile(backend, x, 1));
  run.context().write(x, std::vector<float>(4));
  physical->hold();
  for (int k = 0; k < 10; ++k) run.schedule();
  wait_until_asked(10);
  const sched::Snapshot at = device.timeline().snapshot();
  EXPECT_EQ(at.in_flight, 10U);
  EXPECT_EQ(at.running, "add");
  physical->resume();
  EXPECT_THAT(run.context().read<float>(x), Each(10));
}

// S23, D2: what an issued task uses is kept until it has ended, and no longer
TEST_F(AsynchronousTest, MemoryIsKeptUntilTheEnd) {
  device.trim();
  {
    const BufferView from = new_view(), to = new_view();
    device.await();
    physical->hold();
    to.copy_from(device, from);
    wait_until_asked(1);
  }
  device.trim();
  EXPECT_GE(device.statistics().bytes_cached, 2 * type.num_bytes().value());
  physical->resume();
  device.await();
  EXPECT_EQ(device.statistics().bytes_cached, 0U);
}

// S23, D14: so are code, module, and what the kernel was given
TEST_F(AsynchronousTest, CallablesAreKeptUntilTheEnd) {
  StaticIndex k("k");
  Index i;
  const Tensor y("y", f32, {3, 4});
  Program rows("rows");
  rows << (y(k, i) += 1.0);
  const Context root(device);
  std::vector<Event> events;
  BufferView kept = [&] {
    const Routine run = root.link(backend.compile(rows));
    const BufferView view = run.context().view(y);
    device.await();
    physical->hold();
    for (int row = 0; row < 3; ++row) events.push_back(run.schedule({{k, row}}));
    wait_until_asked(3);
    return view;
  }();
  physical->resume();
  for (const Event& event : events) EXPECT_TRUE(event.wait().ok()) << event.status().to_string();
  std::vector<float> values(12);  // each row once
  EXPECT_TRUE(kept.to_host(device, std::as_writable_bytes(std::span(values))).wait().ok());
  EXPECT_THAT(values, Each(1));
}

// S23, S10: what fails as it is issued has failed in its turn, by name
TEST_F(AsynchronousTest, FailuresAtIssueAreToldInTheirTurn) {
  const Routine run = Context(device).link(compile(backend, x, 1));
  EXPECT_TRUE(run.schedule().wait().ok());  // it asks for zeros, too
  physical->hold();
  const Event good = run.schedule();
  wait_until_asked(1);
  physical->fail_issue();
  const Event bad = run.schedule();
  const Event behind = run.schedule();
  EXPECT_FALSE(bad.wait_for(20ms).ok());
  EXPECT_FALSE(bad.done()) << "the one before has not ended";
  physical->resume();
  EXPECT_EQ(bad.wait().code(), ErrorCode::device_failed);
  EXPECT_TRUE(good.status().ok());
  EXPECT_THAT(bad.status().to_string(), HasSubstr("task 'add'"));
  EXPECT_THAT(bad.status().to_string(), HasSubstr("the asynchronous device takes nothing"));
  EXPECT_FALSE(behind.wait().ok());
  device.recover();
  run.context().write(x, std::vector<float>(4));
  EXPECT_TRUE(run.schedule().wait().ok());
}

// S23, S10: it ends once what it had asked for before has ended, for that uses what it keeps
TEST_F(AsynchronousTest, TasksThatFailHalfIssuedEndWhenTheRestHas) {
  const Code code = compile(backend, x, 1);
  const Routine twice = Context(device).link(
      changed(code, [](std::vector<jit::Step>& steps) { steps.push_back(steps.front()); }));
  device.await();
  physical->hold();
  physical->fail_issue(1);
  const Event bad = twice.schedule();
  wait_until_asked(1);
  static_cast<void>(bad.wait_for(20ms));
  EXPECT_FALSE(bad.done());
  physical->resume();
  EXPECT_THAT(bad.wait().to_string(), HasSubstr("the asynchronous device takes nothing"));
}

// S23, S10: and what fails on the device; those behind are skipped, though they were issued
TEST_F(AsynchronousTest, FailuresAtTheEndAreToldByTask) {
  const Routine run = Context(device).link(compile(backend, x, 1));
  device.await();
  physical->hold();
  const Event bad = run.schedule();
  const Event behind = run.schedule();
  wait_until_asked(2);
  physical->fail_next_end();
  physical->resume();
  EXPECT_EQ(bad.wait().code(), ErrorCode::device_failed);
  EXPECT_THAT(bad.status().to_string(), HasSubstr("task 'add'"));
  EXPECT_THAT(bad.status().to_string(), HasSubstr("the asynchronous device broke"));
  EXPECT_THAT(behind.wait().to_string(), HasSubstr("the asynchronous device broke"));
  device.recover();
  const sched::Counters counted = device.timeline().counters();
  EXPECT_EQ(counted.failed, 1U);
  EXPECT_EQ(counted.skipped, 1U);
  run.context().write(x, std::vector<float>(4));
  EXPECT_TRUE(run.schedule().wait().ok());
}

// F6, S23: a variable whose update fails, or was issued behind what fails, did not come; one whose
// update was not issued has its value from before, also where that is copied
TEST_F(AsynchronousTest, VariablesAreLostWhereTheirUpdatesBegan) {
  for (const bool shared : {false, true}) {
    const Variable<Array> sum("sum", Array(device, {1.F})), other("other", Array(device, {1.F}));
    const auto adding = [&](const Variable<Array>& to) {
      return Executor(device, [=](const Graph& graph, Node by) {
        to.update(graph, to.read(graph) + by);
        return std::vector<Node>();
      });
    };
    const auto add = adding(sum), add_other = adding(other);
    const Array one(device, {1.F});
    add(one);
    add_other(one);
    device.await();
    physical->hold();
    sched::ExternalTimeline later("later");
    const auto hold = [&](const Variable<Array>& of) {
      return shared ? std::optional(of.value()) : std::nullopt;
    };
    const auto a = hold(sum), b = hold(other);
    const Routine run = Context(device).link(compile(backend, x, 1));
    const Event bad = run.schedule();
    add(one);
    wait_until_asked(3);
    device.wait(later.next());
    add_other(one);
    physical->fail_next_end();
    physical->resume();
    EXPECT_FALSE(bad.wait().ok());
    static_cast<void>(later.signal(1));
    device.recover();
    EXPECT_FALSE(failure([&] { static_cast<void>(sum.value().to_host()); }).ok());
    EXPECT_EQ(other.value().values<float>()[0], 2);
  }
}

// D6, D7, S23: a load that was asked for may end badly, as what it comes after does; then so do its
// consumers, also where it was borrowed and copied meanwhile
TEST_F(AsynchronousTest, ConsumersEndAsTheirLoadsDo) {
  const Tensor other("other", f32, {4}), sum("sum", f32, {4});
  const Index i;
  Program fill("fill"), take("take");
  fill << (x(i) = Expr(2.0));
  take << (sum(i) = merge(x)(i));
  const Routine add = Context(device).link(compile(backend, other, 1));
  const Routine filler = Context(device).link(backend.compile(fill));
  const auto check = [&](MergeMode mode, bool traced) {
    CompileOptions compile_options;
    compile_options.trace_values = traced;
    const Routine taker = Context(device).link(backend.compile(take, compile_options));
    add.context().write(other, std::vector<float>(4));
    physical->hold();
    const Event bad = add.schedule({}, {.contain = true});
    const Event loaded = load_merge(device, x, filler.context(), mode, {.after = {bad}}).event;
    filler.schedule();
    int seen = 0;
    ScheduleOptions options;
    options.contain = true;
    if (traced) options.trace = [&](const TracedValue&) { ++seen; };  // begins after the load
    const Event taken = taker.schedule({}, options);
    wait_until_asked(traced ? 3 : 4);
    physical->fail_next_end();
    physical->resume();
    EXPECT_FALSE(loaded.wait().ok());
    EXPECT_THAT(taken.wait().to_string(), HasSubstr("tensor 'x', but the task that loads it"));
    EXPECT_EQ(seen, 0);
    EXPECT_TRUE(failure([&] { device.await(); }).ok());
  };
  for (const MergeMode mode : {MergeMode::copy, MergeMode::stream}) {
    check(mode, false);
    check(mode, true);
  }
}

// S23, S6: a lost device leaves nobody waiting
TEST_F(AsynchronousTest, LostDevicesEndEverything) {
  const Routine run = Context(device).link(compile(backend, x, 1));
  const Device other = backend.physical_device(0).new_virtual_device();
  const Routine there = Context(other).link(compile(backend, x, 2));
  device.await();
  other.await();
  physical->hold();
  const Event here = run.schedule(), elsewhere = there.schedule();
  wait_until_asked(2);
  physical->lose();
  const Event later = run.schedule();
  physical->resume();
  for (const Event& event : {here, elsewhere, later})
    EXPECT_THAT(event.wait().to_string(), HasSubstr("the asynchronous device is lost"));
  device.recover();
  EXPECT_THAT(failure([&] { run.context().write(x, std::vector<float>(4)); }).to_string(),
              HasSubstr("the asynchronous device is lost"));
}

// S23: the host's code in a routine runs when all before it has ended, and before all behind it
TEST_F(AsynchronousTest, HostCallsComeAfterWhatWasAskedFor) {
  const Code code = compile(backend, x, 1);
  std::vector<float> seen(4);
  const Routine plain = Context(device).link(code);
  const void* const data = Inside::of(plain.context().view(x).buffer())->data;
  const Routine calls = plain.context().link(changed(code, [&](std::vector<jit::Step>& steps) {
    steps.emplace_back(jit::CallStep{[&] {
      std::memcpy(seen.data(), data, sizeof(float) * seen.size());
      return Status();
    }});
    steps.push_back(steps.front());
  }));
  for (int k = 0; k < 20; ++k) plain.schedule();
  const Event called = calls.schedule();
  plain.schedule();
  EXPECT_TRUE(called.wait().ok());
  EXPECT_THAT(seen, Each(21));
  EXPECT_THAT(plain.context().read<float>(x), Each(23));
}

// S23, S10: and does not run where something before it has failed
TEST_F(AsynchronousTest, HostCallsDoNotRunBehindAFailure) {
  const Code code = compile(backend, x, 1);
  int calls = 0;
  const Routine plain = Context(device).link(code);
  const Routine calling = plain.context().link(changed(code, [&](std::vector<jit::Step>& steps) {
    steps.emplace_back(jit::CallStep{[&] {
      ++calls;
      return Status();
    }});
  }));
  device.await();
  physical->hold();
  const Event bad = plain.schedule();
  const Event called = calling.schedule();
  physical->fail_next_end();
  wait_until_asked(1);
  physical->resume();
  EXPECT_FALSE(bad.wait().ok());
  EXPECT_FALSE(called.wait().ok());
  EXPECT_EQ(calls, 0);
}

// S12, S23: a kernel that runs on the device is told to stop
TEST_F(AsynchronousTest, KernelsInFlightAreToldToStop) {
  const Tensor u("u", f64, {1'000'000}), s("s", f64, {100'000}), y("y", f64, {100'000});
  const Index i, j;
  Program minutes("minutes");
  minutes << (y(i) += sin(u(j) * s(i)));
  const Routine run = Context(device).link(backend.compile(minutes));
  device.await();
  const Event event = run.schedule();
  while (device.timeline().snapshot().running != "minutes") std::this_thread::sleep_for(1ms);
  device.cancel_pending();
  EXPECT_EQ(event.wait().code(), ErrorCode::cancelled);
  EXPECT_THAT(event.status().to_string(), HasSubstr("incomplete"));
}

// S23, D10: random work on several such devices gives what it gives in order
TEST_F(AsynchronousTest, RandomWorkGivesWhatItGivesInOrder) {
  constexpr int devices_count = 3, steps = 300;
  std::vector<Device> devices;
  std::vector<Routine> routines;
  std::vector<std::vector<float>> expected(devices_count, std::vector<float>(4));
  const Code code = compile(backend, x, 1);
  for (int k = 0; k < devices_count; ++k) {
    devices.push_back(backend.physical_device(0).new_virtual_device());
    routines.push_back(Context(devices.back()).link(code));
  }
  std::vector<std::optional<Event>> last(devices_count);  // that touches its x
  std::mt19937 random(7);
  for (int step = 0; step < steps; ++step) {
    const std::size_t at = random() % devices_count, from = random() % devices_count;
    if (random() % 3 != 0 || at == from) {
      last[at] = routines[at].schedule();
      for (float& value : expected[at]) ++value;
      continue;
    }
    TransferOptions after;
    if (last[from]) after.after.push_back(*last[from]);
    last[at] = copy(x, routines[from].context(), routines[at].context(), after).event;
    last[from] = devices[from].timeline().wait(*last[at]);
    expected[at] = expected[from];
  }
  for (std::size_t k = 0; k < devices_count; ++k)
    EXPECT_EQ(routines[k].context().read<float>(x), expected[k]) << k;
}

}  // namespace
}  // namespace heddle
