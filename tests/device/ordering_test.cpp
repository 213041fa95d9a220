// Automatic order between devices: each kind of use after a use on another device.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <span>
#include <thread>
#include <vector>

#include "tests/device/ordering_fixture.hpp"

namespace heddle {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::Each;
using testing::HasSubstr;

HEDDLE_CONFORMANCE_SUITE(OrderingTest);

// D9: read after write: routines, host access, copies, merges
TEST_P(OrderingTest, ReadsComeAfterWrites) {
  const Buffer spare = used_buffer(other);
  Program add("add");
  Index i;
  add << (t(i) += merge(t)(i));
  const Routine consumer =
      Context(other).with(t, whole(spare, t.type())).link(backend.compile(add));
  const Routine writer = filler(device, view, 3), again = adder(other, view, 1);
  other.await();
  const std::function<Event()> reads[] = {
      [&] { return again.schedule(); },
      [&] { return whole(spare, t.type()).copy_from(other, view); },
      [&] { return merge(consumer, writer.context(), MergeMode::copy); },
      [&] { return merge(consumer, writer.context(), MergeMode::stream); }};
  const float found[] = {4, 3, 6, 9};
  for (std::size_t k = 0; k < std::size(reads); ++k) {
    hold(device);
    writer.schedule();
    const Event last = reads[k]();
    EXPECT_FALSE(last.wait_for(5ms).ok());
    go_on();
    EXPECT_TRUE(last.wait().ok());
    EXPECT_THAT(read(other, k == 0 ? view : whole(spare, t.type())), Each(found[k])) << k;
  }
  hold(device);
  writer.schedule();
  std::vector<float> values(4);
  const Event last = view.to_host(other, std::as_writable_bytes(std::span(values)));
  EXPECT_FALSE(last.wait_for(5ms).ok());
  go_on();
  EXPECT_TRUE(last.wait().ok());
  EXPECT_THAT(values, Each(3));
}

// D9: write after read, and after write; the order holds even if the readers fail
TEST_P(OrderingTest, WritesComeAfterReadsAndWrites) {
  const Routine writer = filler(other, view, 7);
  const Routine fives = filler(device, view, 5);
  std::vector<float> values(4);
  fives.schedule();
  other.await();
  hold(device);
  view.to_host(device, std::as_writable_bytes(std::span(values)));
  const Event second = writer.schedule();
  EXPECT_FALSE(second.wait_for(5ms).ok());
  go_on();
  EXPECT_TRUE(second.wait().ok());
  EXPECT_THAT(values, Each(5));
  hold(device);
  fives.schedule();
  const Event third = writer.schedule();
  EXPECT_FALSE(third.wait_for(5ms).ok());
  go_on();
  EXPECT_TRUE(third.wait().ok());
  EXPECT_THAT(read(device, view), Each(7));
  hold(device);
  const Event cancelled = view.to_host(device, std::as_writable_bytes(std::span(values)));
  const Event last = writer.schedule();
  device.cancel_pending();
  go_on();
  EXPECT_EQ(cancelled.wait().code(), ErrorCode::cancelled);
  EXPECT_TRUE(last.wait().ok());
}

// D9: uses of disjoint bytes need no order
TEST_P(OrderingTest, OtherBytesAreNotWaitedFor) {
  const ArrayType half{f32, {2}};
  const BufferView low(buffer, half, 0), high(buffer, half, 8);
  const std::vector<float> ones{1, 1}, twos{2, 2};
  hold(device);
  const Event held = low.from_host(device, std::as_bytes(std::span(ones)));
  EXPECT_TRUE(high.from_host(other, std::as_bytes(std::span(twos))).wait().ok());
  EXPECT_FALSE(held.done());
  go_on();
  EXPECT_THAT(read(other, view), testing::ElementsAre(1, 1, 2, 2));
}

// D9: reads of memory whose write failed are refused by name, on every device, until a new write
TEST_P(OrderingTest, WhatWasNotWrittenIsRefused) {
  const Routine writer = filler(device, view, 3), reader = adder(other, view, 1);
  const Routine own = adder(device, view, 1);
  other.await();
  hold(device);
  const Event bad = writer.schedule();
  device.cancel_pending();
  go_on();
  EXPECT_EQ(bad.wait().code(), ErrorCode::cancelled);
  for (const Routine& run : {reader, own}) {
    EXPECT_THAT(text(failure([&] { run.schedule(); })),
                AllOf(HasSubstr("'add'"), HasSubstr("'t'"), HasSubstr("not written"),
                      HasSubstr("cancelled")));
  }
  EXPECT_TRUE(writer.schedule().wait().ok());
  EXPECT_TRUE(reader.schedule().wait().ok());
  EXPECT_THAT(read(device, view), Each(4));
}

// D9: partial writes without reads are refused too, with their own message; writes by byte range
// also restore the memory
TEST_P(OrderingTest, PartsOfWhatWasNotWrittenAreRefused) {
  const Routine writer = filler(device, view, 3), own = adder(device, view, 1);
  const Index low(2);
  Program half("half"), more("more");
  half << (t(2 * low) = Expr(2.0));
  more << (t(low) += 2.0);
  const Context context = Context(device).with(t, view);
  const Routine part = context.link(backend.compile(half));
  const Routine reads = context.link(backend.compile(more));
  Recording recording("both");
  recording.schedule(part);
  recording.schedule(own);
  const Replay both = recording.finish();
  hold(device);
  const Event bad = writer.schedule();
  device.cancel_pending();
  go_on();
  EXPECT_EQ(bad.wait().code(), ErrorCode::cancelled);
  const auto refused = [&](const std::function<void()>& call) { return text(failure(call)); };
  EXPECT_THAT(refused([&] { part.schedule(); }),
              AllOf(HasSubstr("'half'"), HasSubstr("writes only a part of tensor 't'"),
                    HasSubstr("Context::write()"), HasSubstr("BufferView::from_host()")));
  EXPECT_THAT(refused([&] { reads.schedule(); }), HasSubstr("reads tensor 't'"));
  EXPECT_THAT(refused([&] { both.run(); }), HasSubstr("(routine 'add') reads tensor 't'"));
  const ArrayType pair{f32, {2}};
  const std::vector<float> fives{5, 5};
  for (const std::size_t at : {0U, 8U}) {
    EXPECT_FALSE(failure([&] { part.schedule(); }).ok());
    BufferView(buffer, pair, at).from_host(device, std::as_bytes(std::span(fives)));
  }
  EXPECT_TRUE(part.schedule().wait().ok());
  EXPECT_THAT(read(device, view), testing::ElementsAre(2, 5, 2, 5));
}

// D9: two hosts that schedule on two devices at once run in one order or the reverse
TEST_P(OrderingTest, HostsAtOnceGiveOneOrder) {
  const Buffer second = used_buffer(other);
  const BufferView there = whole(second, t.type());
  constexpr int rounds = 200;
  std::thread host([&] {
    for (int k = 0; k < rounds; ++k) there.copy_from(other, view);
  });
  const Routine here = adder(device, view, 1);
  for (int k = 0; k < rounds; ++k) {
    here.schedule();
    view.copy_from(device, there);
  }
  host.join();
  device.await();
  other.await();
  const std::vector<float> values = read(device, view);
  EXPECT_THAT(values, Each(values[0])) << "no task saw half of another";
}

/// A tensor with host storage, in a context of each device.
class HostOrderingTest : public OrderingTest {
 protected:
  Routine adder_of(const Device& on) const {
    Program p("add");
    Index i;
    p << (h(i) += 1.0);
    return Context(on).link(backend.compile(p));
  }

  const HostArray storage = HostArray::fill({f32, {4}}, std::vector<double>{1});
  const Tensor h{"h", storage};
  const Routine here = adder_of(device), there = adder_of(other);
  const Context mine = here.context(), its = there.context();
};
HEDDLE_CONFORMANCE_SUITE(HostOrderingTest);

// D9: host storage is ordered like device memory: each kind of use waits for uses on other devices
TEST_P(HostOrderingTest, StorageIsOrderedToo) {
  struct Case {
    std::function<Event()> first, second;
    float before, after;  ///< values in the storage, and the second use's result
    bool is_storage;
  };
  const auto up = [&](const Context& of) { return [&] { return of.from_host(h).event; }; };
  const auto down = [&](const Context& of) { return [&] { return of.to_host(h).event; }; };
  for (const Case& each :
       {Case{down(mine), up(its), 7, 8, false}, Case{up(mine), down(its), 7, 9, true},
        Case{down(mine), down(its), 7, 9, true}}) {
    storage.values<float>()[0] = each.before;
    mine.write(h, std::vector<float>(4, 8));
    its.write(h, std::vector<float>(4, 9));
    hold(device);
    each.first();
    const Event second = each.second();
    EXPECT_FALSE(second.wait_for(5ms).ok());
    go_on();
    EXPECT_TRUE(second.wait().ok());
    EXPECT_THAT(each.is_storage ? storage.at(0) : its.read<float>(h)[0], each.after);
  }
  EXPECT_THAT(mine.read<float>(h)[0], 8);
}

// D9, D4: linking, which reads initial values, waits for pending writes
TEST_P(HostOrderingTest, LinksTakeWhatWasBeingWritten) {
  mine.write(h, std::vector<float>(4, 8));
  hold(device);
  mine.to_host(h);
  std::thread host([&] {
    std::this_thread::sleep_for(5ms);
    go_on();
  });
  EXPECT_THAT(adder_of(other).context().read<float>(h), Each(8));
  host.join();
}

// D9: host storage whose transfer failed is refused by name, until the transfer or the host writes
// again
TEST_P(HostOrderingTest, StorageThatWasNotWrittenIsRefused) {
  const auto fail = [&] {
    hold(device);
    const Event bad = mine.to_host(h).event;
    device.cancel_pending();
    go_on();
    EXPECT_EQ(bad.wait().code(), ErrorCode::cancelled);
  };
  const std::function<void()> readers[] = {[&] { static_cast<void>(mine.from_host(h)); },
                                           [&] { static_cast<void>(its.from_host(h)); },
                                           [&] { static_cast<void>(adder_of(other)); }};
  fail();
  for (const auto& read : readers) {
    EXPECT_THAT(text(failure(read)), AllOf(HasSubstr("host storage of tensor 'h'"),
                                           HasSubstr("not written"), HasSubstr("cancelled")));
  }
  its.to_host(h);
  for (const auto& read : readers) EXPECT_TRUE(failure(read).ok());
  fail();
  storage.set_written();
  for (const auto& read : readers) EXPECT_TRUE(failure(read).ok());
}

// D4: host storage that devices read in place refuses writes of any tensor meanwhile
TEST_P(HostOrderingTest, StorageOfConstantsIsNotWritten) {
  const Tensor c("c", storage, MemoryMode::hosted_constant), y("y", f32, {4});
  Index i;
  Program use("use");
  use << (y(i) = c(i));
  {
    const Routine reader = Context(other).link(backend.compile(use));
    if (reader.context().from_host(c).outcome == TransferOutcome::in_place) {
      EXPECT_THAT(text(failure([&] { static_cast<void>(mine.to_host(h)); })),
                  AllOf(HasSubstr("'h'"), HasSubstr("'c' hosted(constant)")));
    }
    EXPECT_TRUE(mine.from_host(h).event.wait().ok());
  }
  EXPECT_TRUE(mine.to_host(h).event.wait().ok());
}

// D9: with sync manual the caller provides the order
TEST_P(OrderingTest, ManualWaitsForNothing) {
  BackendOptions options;
  options.name = GetParam();
  options.sync = Sync::manual;
  const Backend manual = Backend::open(options);
  const Device one = manual.physical_device(0).new_virtual_device();
  const Device two = manual.physical_device(0).new_virtual_device();
  const Buffer mine = used_buffer(one);
  hold(one);
  const std::vector<float> ones(4, 1);
  const Event held = whole(mine, t.type()).from_host(one, std::as_bytes(std::span(ones)));
  EXPECT_THAT(read(two, whole(mine, t.type())), Each(0));
  EXPECT_FALSE(held.done());
  go_on();
  EXPECT_TRUE(held.wait().ok());
}

// D9: manual for one schedule or one transfer: only that call does not wait
TEST_P(OrderingTest, OneMayBeManual) {
  const Buffer spare = Buffer::allocate(other, t.type());
  const Routine writer = filler(device, view, 3), reader = adder(other, view, 1);
  const Context there = Context(other).with(t, whole(spare, t.type()));
  other.await();
  hold(device);
  writer.schedule();
  EXPECT_TRUE(copy(t, writer.context(), there, {.sync = Sync::manual}).event.wait().ok());
  const Event waits = copy(t, writer.context(), there).event;
  EXPECT_FALSE(waits.wait_for(5ms).ok());
  go_on();
  EXPECT_TRUE(waits.wait().ok());
  EXPECT_THAT(there.read<float>(t), Each(3));
  hold(device);
  writer.schedule();
  EXPECT_TRUE(reader.schedule({}, {.sync = Sync::manual}).wait().ok());
  const Event last = reader.schedule();
  EXPECT_FALSE(last.wait_for(5ms).ok());
  go_on();
  EXPECT_TRUE(last.wait().ok());
  EXPECT_THAT(read(device, view), Each(4));
  EXPECT_THAT(text(failure([&] { reader.schedule({}, {.sync = static_cast<Sync>(9)}); })),
              AllOf(HasSubstr("'add'"), HasSubstr("sync is 9")));
}

// D9: automatic for one call, where the default is manual
TEST_P(OrderingTest, OneMayBeAutomatic) {
  BackendOptions options;
  options.name = GetParam();
  options.sync = Sync::manual;
  const Backend manual = Backend::open(options);
  const Device one = manual.physical_device(0).new_virtual_device();
  const Device two = manual.physical_device(0).new_virtual_device();
  const Buffer mine = Buffer::allocate(one, t.type());
  const Context there = Context(two).with(t, whole(Buffer::allocate(two, t.type()), t.type()));
  const Routine writer = filler(one, whole(mine, t.type()), 3);
  two.await();
  writer.schedule();
  hold(one);
  writer.schedule();
  const Event waits = copy(t, writer.context(), there, {.sync = Sync::automatic}).event;
  EXPECT_FALSE(waits.wait_for(5ms).ok());
  go_on();
  EXPECT_TRUE(waits.wait().ok());
  EXPECT_THAT(there.read<float>(t), Each(3));
}

}  // namespace
}  // namespace heddle
