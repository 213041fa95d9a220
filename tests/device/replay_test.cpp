// Replays: a replay gives the values of the same calls made one by one, in few tasks; and is
// submitted completely or refused.
#include <chrono>
#include <functional>
#include <numeric>
#include <random>
#include <thread>

#include "tests/device/backends.hpp"

namespace heddle {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

constexpr std::int64_t count = 64;

/// A device with the tensors, and routines over them.
struct Party {
  Party(const Device& on, const std::vector<Tensor>& tensors, const std::vector<Code>& codes)
      : device(on) {
    Context context(on);
    for (const Tensor& each : tensors)
      context = context.with(each, BufferView(Buffer::allocate(on, each.type()), each.type()));
    for (const Code& each : codes) routines.push_back(context.link(each));
    std::vector<float> numbers(count);
    std::iota(numbers.begin(), numbers.end(), 1.0f);
    context.write(tensors[3], numbers);
    device.await();
  }
  [[nodiscard]] Context context() const { return routines[0].context(); }
  [[nodiscard]] std::vector<float> read(const Tensor& tensor) const {
    return context().read<float>(tensor);
  }

  Device device;
  std::vector<Routine> routines;  // the last one merges
};

class ReplayTest : public Conformance {
 protected:
  ReplayTest() : codes(compile(backend)) {}
  [[nodiscard]] std::vector<Code> compile(const Backend& by) const {
    Index i;
    Program fill("fill"), mix("mix"), add("add"), gather("gather");
    fill << (x(i) = w(i) + 0.0);
    mix << (y(i) = x(i) * 3.0 - z(i));
    add << (z(i) += y(i) + 2.0);
    gather << (x(i) += heddle::merge(x)(i));
    std::vector<Code> all;
    for (const Program* const each : {&fill, &mix, &add, &gather}) all.push_back(by.compile(*each));
    return all;
  }
  [[nodiscard]] Party party(const Device& on) const { return {on, {x, y, z, w}, codes}; }
  void hold(const Device& held) { held.wait(gate.next()); }
  void go_on() { EXPECT_TRUE(gate.signal(++opened).ok()); }

  const Tensor x{"x", f32, {count}}, y{"y", f32, {count}}, z{"z", f32, {count}},
      w{"w", f32, {count}};
  const Device other = backend.physical_device(0).new_virtual_device();
  sched::ExternalTimeline gate{"gate"};
  std::uint64_t opened = 0;
  const std::vector<Code> codes;
};
HEDDLE_CONFORMANCE_SUITE(ReplayTest);

void expect_ok(const std::vector<Event>& events) {
  for (const Event& each : events) EXPECT_TRUE(each.wait().ok()) << each.status().to_string();
}

// D9: consecutive calls on one device become one task
TEST_P(ReplayTest, CallsOfOneDeviceAreOneTask) {
  const Party a = party(device), b = party(device);
  Recording recording("step");
  for (const int k : {0, 1, 2, 1, 2}) recording.schedule(a.routines[k]);
  const Replay replay = recording.finish();
  EXPECT_EQ(replay.num_recorded(), 5u);
  EXPECT_EQ(replay.num_tasks(), 1u);
  const std::uint64_t before = device.statistics().launches;
  for (int k = 0; k < 3; ++k) {
    EXPECT_THAT(replay.run(), SizeIs(1));
    for (const int each : {0, 1, 2, 1, 2}) b.routines[each].schedule();
  }
  for (const Tensor& each : {x, y, z}) EXPECT_EQ(a.read(each), b.read(each));
  EXPECT_EQ(device.statistics().launches - before, 30u);
  EXPECT_TRUE(Recording("nothing").finish().run().empty());
}

// D9: a replay has the order of its recording, even under manual order
TEST_P(ReplayTest, WaitsInsideAreItsOwn) {
  for (const Sync sync : {Sync::automatic, Sync::manual}) {
    BackendOptions options;
    options.name = GetParam();
    options.sync = sync;
    const Backend opened_so = Backend::open(options);
    const Party a = party(opened_so.physical_device(0).new_virtual_device());
    const Party b = party(opened_so.physical_device(0).new_virtual_device());
    Recording recording;
    recording.schedule(a.routines[0]);
    EXPECT_EQ(recording.copy(x, a.context(), b.context()).outcome, TransferOutcome::scheduled);
    recording.schedule(b.routines[1]);
    recording.merge(a.routines[3], b.context(), MergeMode::stream);
    recording.merge(a.routines[3], b.context(), MergeMode::copy);
    recording.schedule(b.routines[0]);  // comes after the reads of x on that device
    const Replay replay = recording.finish();
    EXPECT_EQ(replay.num_tasks(), 5u) << replay.to_string();
    hold(a.device);
    const std::vector<Event> ends = replay.run();
    EXPECT_FALSE(ends.back().wait_for(5ms).ok());
    go_on();
    expect_ok(ends);
    const std::vector<float> found = a.read(x), there = b.read(y);
    for (std::size_t k = 0; k < count; ++k) {
      EXPECT_EQ(found[k], 3.0f * static_cast<float>(k + 1));
      EXPECT_EQ(there[k], 3.0f * static_cast<float>(k + 1));
    }
    EXPECT_EQ(a.device.statistics().merges_copied, 1u);
    EXPECT_EQ(b.device.statistics().copies, 1u);
  }
}

// D9: at its edges a replay waits like its calls, and other work waits for the replay
TEST_P(ReplayTest, EdgesWaitForOthers) {
  const Party a = party(device), b = party(other);
  Recording recording;
  recording.copy(x, a.context(), b.context());
  recording.schedule(b.routines[1]);
  const Replay replay = recording.finish();
  hold(device);
  a.routines[0].schedule();
  const std::vector<Event> ends = replay.run();
  EXPECT_FALSE(ends.back().wait_for(5ms).ok());
  go_on();
  expect_ok(ends);
  hold(other);
  const std::vector<Event> again = replay.run();
  const Event overwrites = a.routines[0].schedule();
  EXPECT_FALSE(overwrites.wait_for(5ms).ok());
  go_on();
  EXPECT_TRUE(overwrites.wait().ok());
  const Event asked = gate.next();
  const std::vector<Event> after = replay.run({}, {.after = {asked}});
  EXPECT_FALSE(after.back().wait_for(5ms).ok());
  go_on();
  expect_ok(after);
}

// D9: each run binds the open static indices, and reads cells
TEST_P(ReplayTest, RunsBindWhatWasLeftOpen) {
  const StaticIndex row("row", 4), column("column", 8);
  const Tensor t("t", f32, {4, 8});
  Program program("put");
  program << (t(row, column) += 1.0);
  const Routine put = Context(device).link(backend.compile(program));
  std::int64_t cell = 5;
  Recording recording("open");
  recording.schedule(put, {{column, 1}});
  recording.schedule(put, {{row, 3}, {column, &cell}});
  recording.schedule(put);
  recording.schedule(put.prepare({{row, 0}, {column, 0}}));
  const Replay replay = recording.finish();
  EXPECT_THAT(replay.statics(), ElementsAre(row, column));
  replay.run({{row, 1}, {column, 2}});
  cell = 6;
  replay.run({2, 7});
  const std::vector<float> values = put.context().read<float>(t);
  std::vector<float> expected{2};
  expected.resize(32);
  for (const int k : {9, 17, 29, 30, 10, 23}) expected[static_cast<std::size_t>(k)] = 1;
  EXPECT_EQ(values, expected);
  const auto refused = [&](const std::function<void()>& run) {
    const Status why = failure(run);
    EXPECT_EQ(why.code(), ErrorCode::invalid_argument);
    return text(why);
  };
  EXPECT_THAT(refused([&] { replay.run({{row, 1}}); }),
              AllOf(HasSubstr("replay 'open'"), HasSubstr("'column' is not bound"),
                    HasSubstr("run({{index, value}})")));
  EXPECT_THAT(refused([&] { replay.run({{row, 4}, {column, 1}}); }),
              AllOf(HasSubstr("'row'"), HasSubstr("expected 0 to 3")));
  EXPECT_THAT(refused([&] { replay.run({{row, 1}, {row, 1}, {column, 1}}); }),
              HasSubstr("'row' is bound twice"));
  cell = 8;
  EXPECT_THAT(refused([&] { replay.run({1, 1}); }), HasSubstr("expected 0 to 7"));
  EXPECT_THAT(refused([&] { recording.schedule(put, {{column, 8}}); }),
              HasSubstr("expected 0 to 7"));
  EXPECT_EQ(put.context().read<float>(t), values) << "refused runs do nothing";
}

// D17: a replay is refused completely once a buffer of it was donated or a context finalised
TEST_P(ReplayTest, RefusedOnceItsMemoryIsGone) {
  const Party a = party(device), b = party(other);
  Recording recording("whole");
  recording.schedule(a.routines[0]);
  recording.copy(x, a.context(), b.context());
  recording.schedule(b.routines[1]);
  const Replay replay = recording.finish();
  expect_ok(replay.run());
  const auto launches = [&] { return device.statistics().launches + other.statistics().launches; };
  const std::uint64_t before = launches();
  static_cast<void>(b.context().view(y).buffer().donate());
  const Status why = failure([&] { replay.run(); });
  EXPECT_EQ(why.code(), ErrorCode::failed_precondition);
  EXPECT_THAT(text(why), AllOf(HasSubstr("replay 'whole'"), HasSubstr("'y'"), HasSubstr("donated"),
                               HasSubstr("replay_test.cpp")));
  Recording shorter("shorter");
  shorter.schedule(a.routines[0]);
  const Replay one = shorter.finish();
  a.routines[0].context().finalize();
  EXPECT_THAT(text(failure([&] { one.run(); })), HasSubstr("finalised"));
  EXPECT_THAT(text(failure([&] { shorter.schedule(a.routines[0]); })), HasSubstr("finalised"));
  other.await();
  device.await();
  EXPECT_EQ(launches(), before);
  device.finalize();
  EXPECT_THAT(text(failure([&] { one.run(); })),
              AllOf(HasSubstr(device.name()), HasSubstr("finalised")));
}

// D17: no donation happens between the tasks of a run
TEST_P(ReplayTest, NothingIsDonatedWhileARunIsSubmitted) {
  BackendOptions options;
  options.name = GetParam();
  if (GetParam().starts_with("sync_")) return;  // never waits for room
  options.scheduling.device.queue_size = 2;
  const Backend small = Backend::open(options);
  const Party a = party(small.physical_device(0).new_virtual_device());
  const Party b = party(small.physical_device(0).new_virtual_device());
  Recording recording("held");
  recording.schedule(b.routines[0]);
  for (int k = 0; k < 4; ++k) {
    recording.copy(x, b.context(), a.context());
    recording.merge(b.routines[3], a.context(), MergeMode::stream);
  }
  const Replay replay = recording.finish();
  const Buffer used = b.context().view(x).buffer();
  hold(a.device);
  std::thread host([&] { expect_ok(replay.run()); });
  Status why;
  while (why.ok()) {  // until the run waits for room
    std::this_thread::yield();
    if (b.device.statistics().launches == 0) continue;
    why = failure([&] { static_cast<void>(used.donate()); });
    ASSERT_FALSE(why.ok());
  }
  EXPECT_EQ(why.code(), ErrorCode::failed_precondition);
  EXPECT_THAT(text(why), AllOf(HasSubstr("replay"), HasSubstr("replay_test.cpp")));
  go_on();
  host.join();
  EXPECT_EQ(b.read(x).back(), 16.0f * count);
  static_cast<void>(used.donate());
}

// S10: a failure is reported with its replay's name; calls after the failure do not run; recover()
// restores the device
TEST_P(ReplayTest, FailuresNameCallAndReplay) {
  const Party a = party(device), b = party(other);
  Recording recording("broken");
  recording.schedule(a.routines[0]);
  recording.copy(x, a.context(), b.context());
  recording.schedule(b.routines[1]);
  const Replay replay = recording.finish();
  const Event bad = device.submit("bad", [] { return Status(ErrorCode::internal, "spoilt"); });
  EXPECT_FALSE(bad.wait().ok());
  EXPECT_THAT(text(failure([&] { replay.run(); })), HasSubstr("spoilt"));
  other.await();
  device.recover();
  expect_ok(replay.run());
  EXPECT_EQ(b.read(x), a.read(x));
  Recording all;
  for (int k = 0; k < 2; ++k) all.schedule(a.routines[k]);
  all.copy(x, a.context(), b.context());
  const Replay second = all.finish();
  hold(device);
  const std::vector<Event> ends = second.run();
  device.cancel_pending();
  go_on();
  for (const Event& each : ends) EXPECT_FALSE(each.wait().ok());
  device.recover();
  other.recover();
  EXPECT_THAT(text(failure([&] { static_cast<void>(b.read(x)); })), HasSubstr("not written"));
  expect_ok(second.run());
  EXPECT_EQ(b.read(x), a.read(x));
}

// S4: with a full queue and a refusing policy, the error reports the run's progress
TEST_P(ReplayTest, FullQueuesAreTold) {
  BackendOptions options;
  options.name = GetParam();
  if (GetParam().starts_with("sync_")) return;  // never full
  options.scheduling.device.queue_size = 2;
  const Backend small = Backend::open(options);
  const Party a = party(small.physical_device(0).new_virtual_device());
  const Party b = party(small.physical_device(0).new_virtual_device());
  Recording recording("long");
  for (int k = 0; k < 4; ++k) {
    recording.copy(x, b.context(), a.context());
    recording.copy(x, a.context(), b.context());
  }
  const Replay replay = recording.finish();
  hold(a.device);
  const Status why = failure([&] { replay.run({}, {.full = sched::FullPolicy::fail}); });
  EXPECT_EQ(why.code(), ErrorCode::exhausted);
  EXPECT_THAT(text(why),
              AllOf(HasSubstr("replay 'long'"), HasSubstr("of its 8 tasks"), HasSubstr("full")));
  go_on();
  expect_ok(replay.run());
}

// D9: any thread records
TEST_P(ReplayTest, ThreadsRecordAtOnce) {
  const Party a = party(device);
  Recording recording;
  recording.schedule(a.routines[0]);
  std::vector<std::thread> threads;
  for (int k = 0; k < 3; ++k) {
    threads.emplace_back([&] {
      for (int n = 0; n < 50; ++n) recording.schedule(a.routines[2]);
    });
  }
  for (std::thread& each : threads) each.join();
  const Replay replay = recording.finish();
  EXPECT_EQ(replay.num_recorded(), 151u);
  replay.run();
  EXPECT_THAT(a.read(z), Each(300));
}

// D2, D13: handles may be dropped while submitted work waits; a replay keeps its resources
TEST_P(ReplayTest, HandlesMayGoMeanwhile) {
  std::vector<Event> ends;
  std::vector<float> found;
  {
    const Device own = backend.physical_device(0).new_virtual_device();
    std::optional<Party> a(party(own));
    std::optional<Recording> recording(std::in_place);
    recording->schedule(a->routines[0]);
    recording->schedule(a->routines[1]);
    std::optional<Replay> replay(recording->finish());
    recording.reset();
    const Context context = a->context();
    a.reset();
    hold(own);
    ends = replay->run();
    replay->run();
    replay.reset();
    go_on();
    found = context.read<float>(x);
  }
  expect_ok(ends);
  EXPECT_EQ(found[3], 4);
}

// D9, D10: results have the bits of the same calls made one by one, for any calls on any devices
TEST_P(ReplayTest, SameBitsAsOneByOne) {
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    std::mt19937_64 random(seed);
    const auto draw = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
    const Device third = backend.physical_device(0).new_virtual_device();
    const std::vector<Party> recorded{party(device), party(other), party(third)};
    const std::vector<Party> plain{party(device), party(other), party(third)};
    Recording recording;
    std::vector<std::function<void()>> calls;
    const std::vector<Tensor> tensors{x, y, z};
    for (int k = 0; k < 30; ++k) {
      const std::size_t on = draw(3), from = (on + 1 + draw(2)) % 3, what = draw(6);
      if (what < 3) {
        recording.schedule(recorded[on].routines[what]);
        calls.emplace_back([&, on, what] { plain[on].routines[what].schedule().wait(); });
      } else if (what == 3) {
        const MergeMode mode = draw(2) == 0 ? MergeMode::stream : MergeMode::copy;
        recording.merge(recorded[on].routines[3], recorded[from].context(), mode);
        calls.emplace_back([&, on, from, mode] {
          heddle::merge(plain[on].routines[3], plain[from].context(), mode).wait();
        });
      } else {
        const Tensor& tensor = tensors[draw(3)];
        recording.copy(tensor, recorded[from].context(), recorded[on].context());
        calls.emplace_back([&, on, from, tensor] {
          copy(tensor, plain[from].context(), plain[on].context()).event.wait();
        });
      }
    }
    const Replay replay = recording.finish();
    for (int run = 0; run < 2; ++run) {
      replay.run();
      for (const auto& each : calls) each();
    }
    for (std::size_t k = 0; k < 3; ++k) {
      for (const Tensor& each : tensors)
        EXPECT_EQ(recorded[k].read(each), plain[k].read(each)) << replay.to_string();
    }
  }
}

}  // namespace
}  // namespace heddle
