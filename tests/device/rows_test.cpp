// Order between devices where static indices select the rows that routines touch.
#include <algorithm>
#include <cstdint>
#include <span>
#include <thread>
#include <vector>

#include "tests/device/ordering_fixture.hpp"

namespace heddle {
namespace {

using testing::AllOf;
using testing::Each;
using testing::HasSubstr;

/// Rows of one matrix, filled or incremented by a routine whose static index selects the row.
class RowsTest : public OrderingTest {
 protected:
  Routine filler(const Device& on) const { return link(on, "fill", rows(row, i) = Expr(1.0)); }
  Routine adder(const Device& on) const { return link(on, "add", rows(row, i) += 1.0); }
  Routine halver(const Device& on) const {
    return link(on, "halve", rows(row, half) = 2 * rows(row, half + 2));
  }
  Routine link(const Device& on, const char* name, const Statement& statement) const {
    Program p(name);
    p << statement;
    return Context(on).with(rows, all).link(backend.compile(p));
  }
  std::vector<float> read_all() const {
    std::vector<float> values(400);
    throw_if_failed(all.to_host(other, std::as_writable_bytes(std::span(values))).wait());
    return values;
  }

  /// A failed event for tasks to wait on.
  Event failure_of(const Device& on) const {
    const Event event =
        on.submit("fails", [] { return Status(ErrorCode::internal, "so"); }, {.contain = true});
    event.wait();
    return event;
  }

  const Tensor rows{"rows", f32, {100, 4}};
  const Index i, half{2};
  const StaticIndex row{"row"};
  const BufferView all = whole(used_buffer(device, rows.type()), rows.type());
};
HEDDLE_CONFORMANCE_SUITE(RowsTest);

// D9, J6: rows selected by static indices are tracked separately: a task waits for tasks on the
// same row, and not for tasks on other rows
TEST_P(RowsTest, OtherRowsWaitForNothing) {
  const Routine here = filler(device), there = adder(other), part = halver(other);
  other.await();
  hold(device);
  const Event held = here.schedule({3});
  EXPECT_TRUE(there.schedule({2}).wait().ok());
  EXPECT_TRUE(part.schedule({4}).wait().ok());
  EXPECT_FALSE(held.done());
  const Event after = there.schedule({3});
  EXPECT_FALSE(after.done());
  go_on();
  const std::vector<float> values = read_all();
  EXPECT_TRUE(after.done());
  EXPECT_THAT(std::span(values).subspan(8, 4), Each(1));
  EXPECT_THAT(std::span(values).subspan(12, 4), Each(2));
}

// D9: with many tasks queued ahead, on both devices, every row keeps its order
TEST_P(RowsTest, ManyRowsAheadHaveTheirOrder) {
  const Routine fills = filler(device), adds = adder(other), more = adder(device);
  hold(device);
  std::thread opens([&] {
    while (device.timeline().counters().submitted < 60) std::this_thread::yield();
    go_on();
  });
  for (int k = 0; k < 300; ++k) {
    fills.schedule({k % 100});
    adds.schedule({k % 100});
    more.schedule({(k + 37) % 100});
    adds.schedule({(k + 37) % 100});
  }
  opens.join();
  std::vector<float> expected(400);
  const auto at = [&](int k) {
    return std::span(expected).subspan(4 * static_cast<std::size_t>(k), 4);
  };
  for (int k = 0; k < 300; ++k) {
    std::ranges::fill(at(k % 100), 2.0F);
    for (float& each : at((k + 37) % 100)) each += 2;
  }
  EXPECT_EQ(read_all(), expected);
}

// D9: a failed write of one row affects only uses of that row, and a new write of the row restores
// it
TEST_P(RowsTest, RowsThatWereNotWrittenAreTheOnlyOnesRefused) {
  const Routine fills = filler(device), there = adder(other), own = adder(device);
  const Routine part = halver(other);
  other.await();
  EXPECT_TRUE(fills.schedule({6}).wait().ok());
  hold(device);
  const Event bad = fills.schedule({5});
  device.cancel_pending();
  go_on();
  EXPECT_EQ(bad.wait().code(), ErrorCode::cancelled);
  for (const Routine& run : {there, own}) {
    EXPECT_TRUE(run.schedule({4}).wait().ok());
    EXPECT_TRUE(run.schedule({6}).wait().ok());
    EXPECT_THAT(text(failure([&] { run.schedule({5}); })),
                AllOf(HasSubstr("reads tensor 'rows'"), HasSubstr("not written")));
  }
  EXPECT_THAT(text(failure([&] { part.schedule({5}); })), HasSubstr("reads tensor 'rows'"));
  EXPECT_FALSE(failure([&] { read_all(); }).ok());
  EXPECT_TRUE(filler(other).schedule({5}).wait().ok());
  EXPECT_TRUE(own.schedule({5}).wait().ok());
  const std::vector<float> values = read_all();
  EXPECT_THAT(std::span(values).subspan(20, 4), Each(2));
}

// D2, D16: new memory gets its zeros even after a refused launch that had already reserved room for
// its hazard records
TEST_P(RowsTest, RefusedLaunchesLeaveNoRoomForPlainOnes) {
  const Tensor twice("twice", rows.type().dtype, rows.type().dims);
  Program doubles("doubles");
  doubles << (twice(row, i) = 2 * rows(row, i));
  const Routine fills = filler(device);
  hold(device);
  const Event bad = fills.schedule({5});
  device.cancel_pending();
  go_on();
  EXPECT_EQ(bad.wait().code(), ErrorCode::cancelled);
  const Routine run = Context(device).with(rows, all).link(backend.compile(doubles));
  EXPECT_FALSE(failure([&] { run.schedule({5}); }).ok());
  EXPECT_TRUE(fills.schedule({5}).wait().ok());
  EXPECT_TRUE(run.schedule({5}).wait().ok());
  std::vector<float> expected(400);
  std::fill_n(expected.begin() + 20, 4, 2.0F);
  EXPECT_EQ(run.context().read<float>(twice), expected);
}

// D9: written rows stay valid, however many there are; only reads of the missing row are refused
TEST_P(RowsTest, OneOfManyRowsMayBeMissing) {
  const Routine fills = filler(device), own = adder(device);
  hold(device);
  std::vector<Event> events;
  for (int k = 0; k < 40; ++k) events.push_back(fills.schedule({k}));
  const Event bad = fills.schedule({50}, {.after = {failure_of(other)}});
  go_on();
  EXPECT_FALSE(bad.wait().ok());
  for (int k = 0; k < 40; ++k) EXPECT_TRUE(own.schedule({k}).wait().ok()) << k;
  EXPECT_FALSE(failure([&] { own.schedule({50}); }).ok());
  EXPECT_TRUE(fills.schedule({50}).wait().ok());
  EXPECT_TRUE(own.schedule({50}).wait().ok());
}

// D9, D12: a borrowed row is copied only for writers of that row
TEST_P(RowsTest, BorrowedRowsAreCopiedForWritersOfThemAlone) {
  const ArrayType type{f32, {4}};
  const Tensor sum("sum", f32, {4}), given("given", f32, {4});
  Program adds("adds");
  adds << (sum(i) = merge(given)(i));
  const BufferView second(all.buffer(), type, 16);
  Context takes = Context(other).with(sum, whole(used_buffer(other), sum.type()));
  const Routine consumer = takes.link(backend.compile(adds));
  const Context source = Context(device).with(given, second);
  const Routine fills = filler(device);
  const auto copied = [&] {
    other.await();
    return other.statistics().merges_copied;
  };
  const std::uint64_t before = copied();
  load_merge(consumer, source, MergeMode::stream);
  fills.schedule({0});
  EXPECT_EQ(copied(), before);
  fills.schedule({1});
  EXPECT_EQ(copied(), before + 1);
  consumer.schedule();
  EXPECT_THAT(takes.read<float>(sum), Each(0));
}

}  // namespace
}  // namespace heddle
