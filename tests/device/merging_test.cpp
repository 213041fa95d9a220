// Merge buffers: a buffer per virtual device, a single mode, arrays of every size.
#include <chrono>
#include <functional>
#include <latch>
#include <thread>

#include "tests/device/backends.hpp"

namespace heddle {
namespace {

using testing::AllOf;
using testing::AnyOf;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class MergingTest : public Conformance {
 protected:
  /// A routine that fills `t` with a value.
  Routine filler(const Device& on, const Tensor& t, double value) const {
    Program p("fill");
    p << (t.at(everywhere(t)) = Expr(value));
    return Context(on).link(backend.compile(p));
  }
  /// A routine that adds the merge buffer of `t` to `t`.
  Routine adder(const Device& on, const Tensor& t, const CompileOptions& options = {}) const {
    const auto at = everywhere(t);
    Program p("add");
    p << (t.at(at) += merge(t).at(at));
    return Context(on).link(backend.compile(p, options));
  }

 private:
  static std::vector<Subscript> everywhere(const Tensor& t) {
    std::vector<Subscript> subscripts;
    for (std::size_t axis = 0; axis < t.dims().size(); ++axis) subscripts.emplace_back(Index());
    return subscripts;
  }
};
HEDDLE_CONFORMANCE_SUITE(MergingTest);

// D6, O33: code compiled for one merge mode refuses the second mode at the call, or, where the call
// does not know the consumer, when the consumer is scheduled
TEST_P(MergingTest, CodeForOneModeRefusesTheOther) {
  for (const MergeMode only : {MergeMode::copy, MergeMode::stream}) {
    const MergeMode wrong = only == MergeMode::copy ? MergeMode::stream : MergeMode::copy;
    const Device other = backend.physical_device(0).new_virtual_device();
    const Tensor g("g", f32, {2});
    const Routine source = filler(device, g, 5);
    EXPECT_TRUE(source.schedule().wait().ok());
    CompileOptions options;
    options.name = "strict";
    options.merge_mode = only;
    const Routine strict = adder(other, g, options);
    const std::string rule = "by " + std::string(name(only)) + " only";
    const Status at_the_call =
        failure([&] { static_cast<void>(merge(strict, source.context(), wrong)); });
    EXPECT_EQ(at_the_call.code(), ErrorCode::invalid_argument);
    EXPECT_THAT(text(at_the_call), AllOf(HasSubstr("'strict'"), HasSubstr(rule)));
    static_cast<void>(load_merge(other, g, source.context(), wrong));
    const Status later = failure([&] { strict.schedule(); });
    EXPECT_EQ(later.code(), ErrorCode::failed_precondition);
    EXPECT_THAT(text(later), AllOf(HasSubstr("'strict'"), HasSubstr(rule), HasSubstr("'g'"),
                                   HasSubstr("loaded by " + std::string(name(wrong)))));
    EXPECT_TRUE(merge(strict, source.context(), only).wait().ok());
    EXPECT_THAT(strict.context().read<float>(g), ElementsAre(5, 5));
  }
}

// D6, O25: batches are compiled for one mode like single programs
TEST_P(MergingTest, BatchesMayBeForOneModeToo) {
  const Device other = backend.physical_device(0).new_virtual_device();
  const Tensor g("g", f32, {2}), h("h", f32, {2});
  Index i;
  std::vector<Program> programs{Program("first"), Program("second")};
  programs[0] << (g(i) += merge(g)(i));
  programs[1] << (h(i) += merge(g)(i));
  const Routine source = filler(device, g, 5);
  EXPECT_TRUE(source.schedule().wait().ok());
  for (const bool shared : {true, false}) {
    BatchOptions options;
    options.each.shared = shared;
    options.each.merge_mode = MergeMode::copy;
    for (const auto& routine :
         Context(other).link_batch(backend.compile_batch(programs, options))) {
      const Status refused =
          failure([&] { static_cast<void>(merge(*routine, source.context(), MergeMode::stream)); });
      EXPECT_EQ(refused.code(), ErrorCode::invalid_argument);
      EXPECT_THAT(text(refused), AllOf(HasSubstr(routine->name()), HasSubstr("by copy only")));
      EXPECT_TRUE(merge(*routine, source.context(), MergeMode::copy).wait().ok());
    }
  }
}

// D6, O36, O37: devices on one physical device have separate merge buffers, which grow in order,
// while queued work still reads the smaller buffer
TEST_P(MergingTest, EveryVirtualDeviceHasItsOwnBuffer) {
  const Tensor small("small", f32, {2}), large("large", f32, {5000});
  std::vector<Routine> consumers;
  sched::ExternalTimeline gate("gate");
  const Event opened = gate.next();
  for (int k = 1; k <= 3; ++k) {
    const Device mine = backend.physical_device(0).new_virtual_device();
    const Routine few = adder(mine, small), many = adder(mine, large);
    const Routine from_few = filler(device, small, k), from_many = filler(device, large, 10 * k);
    EXPECT_TRUE(from_few.schedule().wait().ok());
    EXPECT_TRUE(from_many.schedule().wait().ok());
    mine.wait(opened);
    merge(few, from_few.context(), MergeMode::copy);
    merge(many, from_many.context(), MergeMode::copy);
    merge(few, from_few.context(), MergeMode::copy);
    consumers.insert(consumers.end(), {few, many});
  }
  EXPECT_TRUE(gate.signal(opened.ticket()).ok());
  for (int k = 1; k <= 3; ++k) {
    const auto at = static_cast<std::size_t>(2 * (k - 1));
    EXPECT_THAT(consumers[at].context().read<float>(small), Each(2.0F * static_cast<float>(k)));
    EXPECT_THAT(consumers[at + 1].context().read<float>(large),
                Each(10.0F * static_cast<float>(k)));
  }
}

// D3, D5, D6: arrays without elements and scalars are transferred like any array
TEST_P(MergingTest, EmptyAndScalarTensorsMove) {
  const Device other = backend.physical_device(0).new_virtual_device();
  const Tensor scalar("scalar", HostArray({f32, {}})), empty("empty", HostArray({f32, {0, 3}}));
  for (const Tensor& t : {scalar, empty}) {
    const Routine source = filler(device, t, 5);
    const Routine consumer = adder(other, t);
    EXPECT_TRUE(source.schedule().wait().ok());
    for (const MergeMode mode : {MergeMode::copy, MergeMode::stream})
      EXPECT_TRUE(merge(consumer, source.context(), mode).wait().ok());
    EXPECT_TRUE(copy(t, consumer.context(), source.context()).event.wait().ok());
    EXPECT_TRUE(source.context().to_host(t).event.wait().ok());
    EXPECT_TRUE(consumer.context().from_host(t).event.wait().ok());
    const auto values = consumer.context().read<float>(t);
    if (t == scalar) {
      EXPECT_THAT(values, ElementsAre(10));
    } else {
      EXPECT_THAT(values, IsEmpty());
    }
  }
}

// D7, D8: transfer and consumer are one submission: a load of another thread cannot come between
TEST_P(MergingTest, MergesOfTwoThreadsDoNotMix) {
  const Device other = backend.physical_device(0).new_virtual_device();
  constexpr int rounds = 2000;
  std::latch start(2);
  const auto merge_often = [&](const Tensor& t, MergeMode mode) {
    const Routine source = filler(device, t, 1);
    const Routine consumer = adder(other, t);
    EXPECT_TRUE(source.schedule().wait().ok());
    return std::thread([=, &start] {
      start.arrive_and_wait();
      for (int k = 0; k < rounds; ++k) {
        const Status refused = failure([&] { merge(consumer, source.context(), mode); });
        EXPECT_TRUE(refused.ok()) << text(refused);
      }
      EXPECT_THAT(consumer.context().read<float>(t), Each(static_cast<float>(rounds)));
    });
  };
  std::thread g = merge_often(Tensor("g", f32, {2}), MergeMode::copy);
  std::thread h = merge_often(Tensor("h", f32, {5}), MergeMode::stream);
  g.join();
  h.join();
  other.await();
  EXPECT_EQ(other.statistics().merges_copied, static_cast<std::uint64_t>(rounds));
  EXPECT_EQ(other.statistics().merges_streamed, static_cast<std::uint64_t>(rounds));
}

// D6, D7, D8: loads, merges and consumers that several threads submit to one device: every accepted
// consumer reads the complete expected tensor
TEST_P(MergingTest, LoadsAndConsumersOfSeveralThreadsDoNotMix) {
  const Device other = backend.physical_device(0).new_virtual_device();
  constexpr int rounds = 200;
  const Tensor g("g", f32, {64}), h("h", f32, {300}), seen("seen", f32, {64});
  const Routine one = filler(device, g, 1), ten = filler(device, g, 10), far = filler(device, h, 7);
  for (const Routine* source : {&one, &ten, &far}) EXPECT_TRUE(source->schedule().wait().ok());
  Index i;
  Program look("look");
  look << (seen(i) = merge(g)(i));
  const Code code = backend.compile(look);
  std::latch start(4);
  const auto often = [&](const auto& step) {
    return std::thread([&start, step] {
      start.arrive_and_wait();
      for (int k = 0; k < rounds; ++k) step(k);
    });
  };
  const auto load = [&](const Tensor& t, const Routine& source, int k) {
    const MergeMode mode = k % 2 == 0 ? MergeMode::copy : MergeMode::stream;
    static_cast<void>(load_merge(other, t, source.context(), mode));
  };
  std::thread threads[] = {
      often([&](int k) { load(g, k % 3 == 0 ? one : ten, k); }),
      often([&](int k) { load(h, far, k); }), often([&, mine = Context(other).link(code)](int k) {
        const Routine& source = k % 3 == 0 ? one : ten;
        merge(mine, source.context(), k % 2 == 0 ? MergeMode::copy : MergeMode::stream);
        EXPECT_THAT(mine.context().read<float>(seen), Each(k % 3 == 0 ? 1 : 10));
      }),
      often([&, mine = Context(other).link(code)](int /*k*/) {
        const Status refused = failure([&] { mine.schedule(); });
        if (refused.ok()) {
          EXPECT_THAT(mine.context().read<float>(seen), AnyOf(Each(1), Each(10)));
        } else {
          EXPECT_EQ(refused.code(), ErrorCode::failed_precondition);
        }
      })};
  for (std::thread& thread : threads) thread.join();
  other.await();
  load(g, one, 0);
  const Routine last = Context(other).link(code);
  last.schedule();
  EXPECT_THAT(last.context().read<float>(seen), Each(1));
}

// D8: a refused merge has no side effects: loaded values stay, and an empty buffer stays empty;
// values from a merge are dropped with its consumer
TEST_P(MergingTest, RefusedMergesTakeNothing) {
  const Device other = backend.physical_device(0).new_virtual_device();
  const Tensor g("g", f32, {2});
  const StaticIndex row("row", 4);
  Index i;
  Program p("shifted");
  p << (g(i) += merge(g)(i) * embed(row));
  const Routine consumer = Context(other).link(backend.compile(p));
  const Routine one = filler(device, g, 1), ten = filler(device, g, 10);
  EXPECT_TRUE(one.schedule().wait().ok());
  EXPECT_TRUE(ten.schedule().wait().ok());
  const auto refused_merge = [&](const Bindings& bindings, const std::string& culprit) {
    const Status status =
        failure([&] { merge(consumer, ten.context(), MergeMode::stream, bindings); });
    EXPECT_EQ(status.code(), ErrorCode::invalid_argument);
    EXPECT_THAT(text(status), HasSubstr(culprit));
  };
  const auto refused_schedule = [&] {
    const Status status = failure([&] { consumer.schedule({{row, 1}}); });
    EXPECT_EQ(status.code(), ErrorCode::failed_precondition);
    EXPECT_THAT(text(status), AllOf(HasSubstr("'g'"), HasSubstr("none")));
  };
  refused_merge({{row, 4}}, "'row'");
  refused_schedule();
  static_cast<void>(load_merge(other, g, one.context(), MergeMode::stream));
  refused_merge({}, "'row'");
  consumer.schedule({{row, 3}});
  EXPECT_THAT(consumer.context().read<float>(g), ElementsAre(3, 3));
  merge(consumer, ten.context(), MergeMode::stream, {{row, 1}});
  EXPECT_THAT(consumer.context().read<float>(g), ElementsAre(13, 13));
  refused_schedule();
  EXPECT_EQ(other.statistics().merges_streamed, 2u);
  other.await();  // did not fail
}

// D6, D8: loaded values serve every consumer until the next load; values from a merge serve only
// its own consumer, and replace the loaded values
TEST_P(MergingTest, LoadsStayAndWhatAMergeBringsDoesNot) {
  const Device other = backend.physical_device(0).new_virtual_device();
  const Tensor g("g", f32, {2});
  const Routine consumer = adder(other, g);
  const Routine one = filler(device, g, 1), ten = filler(device, g, 10);
  EXPECT_TRUE(one.schedule().wait().ok());
  EXPECT_TRUE(ten.schedule().wait().ok());
  float sum = 0;
  for (const MergeMode mode : {MergeMode::copy, MergeMode::stream}) {
    static_cast<void>(load_merge(consumer, one.context(), mode));
    for (int k = 0; k < 3; ++k) consumer.schedule();
    EXPECT_THAT(consumer.context().read<float>(g), Each(sum += 3));
    static_cast<void>(load_merge(consumer, ten.context(), mode));
    consumer.schedule();
    EXPECT_THAT(consumer.context().read<float>(g), Each(sum += 10));
    merge(consumer, one.context(), mode);
    EXPECT_THAT(text(failure([&] { consumer.schedule(); })), HasSubstr("none"));
    EXPECT_THAT(consumer.context().read<float>(g), Each(sum += 1));
  }
}

// D6: a buffer that the consumer writes is copied, not streamed, in any call and for any overlap of
// the bytes; outcome and counters show the copy
TEST_P(MergingTest, WhatTheConsumerWritesIsCopied) {
  const Tensor t("t", f32, {8});
  Index i;
  Program turn("turn"), fill("fill");
  turn << (t(i) = merge(t)(7 - i));
  fill << (t(i) = embed(i));
  const Code code = backend.compile(turn);
  // The second half of the target is the first half of the source.
  const Buffer buffer = Buffer::allocate(device, {f32, {12}});
  const Context before = Context(device).with(t, BufferView(buffer, t.type()));
  const Context after = Context(device).with(t, BufferView(buffer, t.type(), 16));
  const Routine same = before.link(code), shifted = after.link(code);
  const Routine start = before.link(backend.compile(fill));
  std::uint64_t copied = 0;
  const auto check = [&](const Routine& consumer, const std::function<void()>& run) {
    start.schedule();
    run();
    EXPECT_THAT(consumer.context().read<float>(t), ElementsAre(7, 6, 5, 4, 3, 2, 1, 0));
    EXPECT_EQ(device.statistics().merges_copied, ++copied);
  };
  for (const Routine& consumer : {same, shifted}) {
    check(consumer, [&] { merge(consumer, before, MergeMode::stream); });
    check(consumer, [&] {
      EXPECT_EQ(load_merge(consumer, before, MergeMode::stream).outcome, TransferOutcome::copied);
      consumer.schedule();
    });
    check(consumer, [&] {
      EXPECT_EQ(load_merge(device, t, before, MergeMode::stream).outcome,
                TransferOutcome::streamed);
      consumer.schedule();
    });
  }
  // Adjacent bytes need no copy.
  const Tensor half("half", f32, {4});
  Program turn_half("turn_half");
  turn_half << (half(i) = merge(half)(3 - i));
  const Context low = Context(device).with(half, BufferView(buffer, half.type()));
  const Routine high = Context(device)
                           .with(half, BufferView(buffer, half.type(), 16))
                           .link(backend.compile(turn_half));
  start.schedule();
  EXPECT_EQ(load_merge(high, low, MergeMode::stream).outcome, TransferOutcome::streamed);
  high.schedule();
  EXPECT_THAT(high.context().read<float>(half), ElementsAre(3, 2, 1, 0));
  EXPECT_EQ(device.statistics().merges_copied, copied);
}

// D8: a write to streamed bytes is refused where the device of the merge buffer takes no copy in
// time; the loaded values stay
TEST_P(MergingTest, WritersAreRefusedWithTheCopyThatTheyNeed) {
  if (GetParam().starts_with("sync_")) return;  // inline queues are never full
  BackendOptions options;
  options.name = GetParam();
  options.scheduling.device.queue_size = 2;
  const Backend small = Backend::open(options);
  const auto new_device = [&] { return small.physical_device(0).new_virtual_device(); };
  const Device mine = new_device(), other = new_device();
  const Tensor g("g", f32, {2});
  Index i, j;
  Program fill("fill"), add("add");
  fill << (g(i) += 5.0);
  add << (g(j) += merge(g)(j));
  const Routine source = Context(mine).link(small.compile(fill));
  const Routine consumer = Context(other).link(small.compile(add));
  source.schedule();
  mine.await();
  other.await();
  EXPECT_EQ(load_merge(consumer, source.context(), MergeMode::stream).outcome,
            TransferOutcome::streamed);
  other.await();
  sched::ExternalTimeline gate("gate");
  const Event opened = gate.next();
  other.wait(opened);
  while (other.submit("full", [] {}, {.full = sched::FullPolicy::fail}).accepted()) {
  }
  const auto write = [&](const ScheduleOptions& how) {
    return failure([&] { static_cast<void>(source.schedule({}, how)); });
  };
  const Status full = write({.full = sched::FullPolicy::fail});
  EXPECT_EQ(full.code(), ErrorCode::exhausted) << text(full);
  EXPECT_THAT(text(full), HasSubstr("borrows, which must have a copy first"));
  const Status late = write({.full = sched::FullPolicy::deadline,
                             .deadline = Event::Clock::now() + std::chrono::milliseconds(10)});
  EXPECT_EQ(late.code(), ErrorCode::deadline) << text(late);
  EXPECT_TRUE(gate.signal(opened.ticket()).ok());
  other.await();
  EXPECT_TRUE(consumer.schedule().wait().ok());
  EXPECT_THAT(consumer.context().read<float>(g), Each(5));
}

// D7: a cancelled load leaves no values, and its consumer's error names the missing values
TEST_P(MergingTest, ConsumersOfALoadThatDidNotRunAreRefused) {
  const Device other = backend.physical_device(0).new_virtual_device();
  const Tensor g("g", f32, {2});
  const Routine source = filler(device, g, 5);
  const Routine consumer = adder(other, g);
  EXPECT_TRUE(source.schedule().wait().ok());
  other.await();
  sched::ExternalTimeline gate("gate");
  const Event opened = gate.next();
  other.wait(opened);
  const Event loaded = load_merge(consumer, source.context(), MergeMode::copy).event;
  other.cancel_pending();
  ScheduleOptions contained;
  contained.contain = true;
  // The cancellation may or may not be known yet.
  Status status;
  Event event;
  const Status at_the_call = failure([&] { event = consumer.schedule({}, contained); });
  EXPECT_TRUE(gate.signal(opened.ticket()).ok());
  status = at_the_call.ok() ? event.wait() : at_the_call;
  EXPECT_EQ(loaded.wait().code(), ErrorCode::cancelled);
  EXPECT_THAT(text(status), AllOf(HasSubstr("'add'"), HasSubstr("'g'"), HasSubstr("merge buffer")));
  EXPECT_THAT(text(failure([&] { consumer.schedule(); })), HasSubstr("none"));
  // the values that the consumer failed to write
  consumer.context().write(g, std::vector<float>(2));
  EXPECT_TRUE(merge(consumer, source.context(), MergeMode::copy).wait().ok());
  EXPECT_THAT(consumer.context().read<float>(g), ElementsAre(5, 5));
}

// J8, D12: code is compiled for separate arrays: a link refuses, by name, two tensors that overlap
// in written bytes; read-only bytes may be shared
TEST_P(MergingTest, OverlappingTensorsThatAreWrittenAreRefused) {
  const Tensor x("x", f32, {6}), y("y", f32, {6}), z("z", f32, {6});
  Index i;
  Program shift("shift"), sum("sum");
  shift << (y(i) = x(i) + 1.0);
  sum << (z(i) = x(i) + y(i));
  const Code shifting = backend.compile(shift), summing = backend.compile(sum);
  const Buffer buffer = Buffer::allocate(device, {f32, {12}});
  for (const std::size_t offset : {0, 4, 20, 24}) {
    const Context both = Context(device)
                             .with(x, BufferView(buffer, x.type()))
                             .with(y, BufferView(buffer, y.type(), offset));
    const Status refused = failure([&] { static_cast<void>(both.link(shifting)); });
    if (offset == 24) {
      EXPECT_TRUE(refused.ok()) << text(refused);
    } else {
      EXPECT_EQ(refused.code(), ErrorCode::failed_precondition);
      EXPECT_THAT(text(refused), AllOf(HasSubstr("'shift'"), HasSubstr("'x'"), HasSubstr("'y'")));
    }
    EXPECT_TRUE(both.link(summing).schedule().wait().ok());
  }
}

}  // namespace
}  // namespace heddle
