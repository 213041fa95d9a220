// What runs out of host memory at any point is refused, thrown or an event's end; never the end of
// the process.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <iterator>
#include <new>
#include <optional>
#include <vector>

#include "heddle/heddle.hpp"
#include "tests/support/failure.hpp"
#include "tests/unit/scheduler/allocations.hpp"

namespace heddle {
namespace {

using testing::Each;
using testing::ElementsAre;

/// Tasks run where they are submitted: on the thread that has no memory.
class RuntimeNoMemoryTest : public testing::Test {
 protected:
  RuntimeNoMemoryTest() {
    Index i;
    fill << (x(i) = Expr(1.0));
    add << (x(i) += merge(x)(i));
  }
  Backend backend = Backend::open("sync_cc");
  Device device = backend.physical_device(0).new_virtual_device();
  const Tensor x{"a tensor whose name is longer than a string holds in itself",
                 HostArray({f32, {4}})};
  Program fill{"fill"}, add{"add"};
};

// D3, D17: whatever uses a buffer, at whichever allocation it fails; and all goes on afterwards
TEST_F(RuntimeNoMemoryTest, UsesOfBuffersAreRefusedWherever) {
  const Device other = backend.physical_device(0).new_virtual_device();
  const Routine run = Context(device).link(backend.compile(fill));
  const Routine consumer = Context(other).link(backend.compile(add));
  const BufferView view = run.context().view(x);
  const Buffer mine = Buffer::allocate(device, x.type());
  std::vector<float> values(4);
  const std::function<Event()> uses[] = {
      [&] { return run.schedule(); }, [&] { return run.context().to_host(x).event; },
      [&] { return view.to_host(other, std::as_writable_bytes(std::span(values))); },
      // Overlapping: staged.
      [&] {
        return BufferView(mine, {f32, {3}}, 4).copy_from(device, BufferView(mine, {f32, {3}}));
      },
      [&] { return copy(x, run.context(), consumer.context()).event; },
      [&] { return load_merge(consumer, run.context(), MergeMode::copy).event; },
      [&] { return consumer.schedule(); },
      [&] { return merge(consumer, run.context(), MergeMode::copy); },
      [&] { return merge(consumer, run.context(), MergeMode::stream); },
      [&] {
        const BufferView fresh(Buffer::allocate(other, x.type()).donate(), x.type());
        return fresh.copy_from(device, view);
      }};
  std::size_t failed = 0;
  for (const auto& use : uses) {
    int failures = 0;
    for (bool ran = false; !ran; ++failures) {
      ASSERT_LT(failures, 1000);
      Event event;
      try {
        const NoMemory none(static_cast<std::uint64_t>(failures));
        event = use();
        ran = event.status().ok();
      } catch (const Error&) {
      } catch (const std::bad_alloc&) {
      }
      for (const Device& one : {device, other}) EXPECT_TRUE(one.timeline().recover().ok());
      // What one that failed should have written.
      EXPECT_TRUE(run.schedule().wait().ok());
      consumer.context().write(x, values);
      const auto zeros = std::as_bytes(std::span(values));
      EXPECT_TRUE(BufferView(mine, x.type()).from_host(device, zeros).wait().ok());
    }
    failed += failures > 1 ? 1 : 0;
  }
  EXPECT_GE(failed, std::size(uses) - 1);  // the last merge has what those before it took
  run.schedule();
  EXPECT_THAT(run.context().read<float>(x), Each(1));
  EXPECT_TRUE(view.to_host(other, std::as_writable_bytes(std::span(values))).wait().ok());
  EXPECT_THAT(values, Each(1));
}

// D3: whatever a program is at when memory runs out, on new devices or old ones: linking, moving,
// merging, donating, recording, replaying, closing
TEST_F(RuntimeNoMemoryTest, WholeProgramsEndWherever) {
  const Code filling = backend.compile(fill), adding = backend.compile(add);
  const Device old = backend.physical_device(0).new_virtual_device();
  std::optional<Replay> known;  // so that its code need not be compiled again
  const auto run = [&](std::array<float, 3>& sums) {
    const Device second = backend.physical_device(0).new_virtual_device();
    const Routine ones = Context(device).link(filling), consumer = Context(second).link(adding);
    Context third = Context(old).with(x, BufferView(Buffer::allocate(old, x.type()), x.type()));
    ones.schedule();
    load_merge(consumer, ones.context(), MergeMode::stream);
    consumer.schedule();
    merge(consumer, ones.context(), MergeMode::copy);
    copy(x, consumer.context(), third);
    third = Context(old).with(x, BufferView(third.view(x).buffer().donate(), x.type()));
    const std::vector<Context> all{ones.context(), consumer.context(), third};
    Recording recording("all");
    recording.all_reduce(x, all);
    recording.copy(x, third, consumer.context());
    const Replay replay = recording.finish();
    replay.run();
    for (const Event& each : replay.run()) throw_if_failed(each.wait());
    for (std::size_t k = 0; k < sums.size(); ++k) sums[k] = all[k].read<float>(x)[0];
    if (!known) known = replay;
  };
  std::array<float, 3> sums{};
  run(sums);  // what is kept from the first time on
  EXPECT_THAT(sums, Each(15));
  int failures = 0;
  for (bool ran = false; !ran; ++failures) {
    ASSERT_LT(failures, 10'000);
    sums = {};
    try {
      const NoMemory none(static_cast<std::uint64_t>(failures));
      run(sums);
      ran = true;
    } catch (const Error&) {
    } catch (const std::bad_alloc&) {
    }
    for (const Device& one : {device, old}) EXPECT_TRUE(one.timeline().recover().ok());
  }
  EXPECT_GT(failures, 100);
  EXPECT_THAT(sums, Each(15));
  known.reset();
  for (const Device& one : {device, old}) EXPECT_EQ(one.statistics().bytes_in_use, 0u);
}

// J8: whatever a compile is at
TEST_F(RuntimeNoMemoryTest, CompilesEndWherever) {
  Index i;
  const auto compile = [&](int k) {
    Program p("compiled");
    p << (x(i) = x(i) * 2 + k);
    const std::uint64_t before = allocations();
    static_cast<void>(Context(device).link(backend.compile(p)));
    return allocations() - before;
  };
  const std::uint64_t needed = compile(0);
  int refused = 0;
  for (std::uint64_t granted = 1; granted < needed; granted += 1 + needed / 64) {
    try {
      const NoMemory none(granted);
      compile(static_cast<int>(granted));
    } catch (const Error& e) {
      ++refused;
      EXPECT_EQ(e.status().code(), ErrorCode::exhausted) << e.what();
    } catch (const std::bad_alloc&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 50);
  compile(-1);
}

// D13: a refusal by a device that was finalised keeps its code
TEST_F(RuntimeNoMemoryTest, RefusalsOfFinalisedDevicesKeepTheirCode) {
  std::vector<ErrorCode> codes;
  codes.reserve(2);
  for (const bool whole : {false, true}) {
    whole ? backend.finalize() : device.finalize();
    const NoMemory none;
    codes.push_back(device.submit("late", [] {}).status().code());
  }
  EXPECT_THAT(codes, ElementsAre(ErrorCode::failed_precondition, ErrorCode::failed_precondition));
}

// S21: a message that nobody hears costs no memory either
TEST_F(RuntimeNoMemoryTest, UnheardMessagesAreNotMade) {
  const Code code = backend.compile(fill);
  const Routine run = Context(device).link(code);
  const Routine consumer = Context(device).link(backend.compile(add));
  const std::function<void()> acts[] = {
      [&] { static_cast<void>(Context(device).link(code)); }, [&] { run.schedule(); },
      [&] { static_cast<void>(run.context().to_host(x)); },
      [&] { static_cast<void>(copy(x, run.context(), consumer.context())); },
      [&] { static_cast<void>(load_merge(consumer, run.context(), MergeMode::copy)); }};
  set_log_hook([](LogLevel /*level*/, std::string_view /*text*/) {});
  for (const auto& act : acts) {
    const auto cost = [&](LogLevel level) {
      set_log_level(level);
      const std::uint64_t before = allocations();
      act();
      return allocations() - before;
    };
    static_cast<void>(cost(LogLevel::debug));  // what is kept from the first time on
    const std::uint64_t heard = cost(LogLevel::debug);
    EXPECT_LT(cost(LogLevel::warn), heard);
  }
  set_log_level(LogLevel::warn);
  set_log_hook({});
}

}  // namespace
}  // namespace heddle
