// Memory borrowed by a merge buffer is copied before a write: consumers read the values from the
// time of the load.
#include <chrono>
#include <functional>

#include "tests/device/backends.hpp"

namespace heddle {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::Each;
using testing::HasSubstr;

/// A source on the first device, a consumer on the second.
class StreamOrderTest : public Conformance {
 protected:
  StreamOrderTest() { fresh(); }
  Routine filler(const Device& on, const BufferView& at, double value) const {
    Program p("fill");
    Index i;
    p << (g(i) = Expr(value));
    return Context(on).with(g, at).link(backend.compile(p));
  }
  Routine adder(const Device& on) const {
    Program p("add");
    Index i;
    p << (g(i) += merge(g)(i));
    return Context(on).link(backend.compile(p));
  }
  BufferView view() const { return source.view(g); }
  void fresh() const { source.write(g, std::vector<float>(4, 5)); }
  void load() const {
    EXPECT_EQ(load_merge(consumer, source, MergeMode::stream).outcome, TransferOutcome::streamed);
  }
  /// The value that the consumer adds.
  std::vector<float> consumed() const {
    consumer.context().write(g, std::vector<float>(4, 0));
    consumer.schedule();
    return consumer.context().read<float>(g);
  }
  std::uint64_t copied() const { return other.statistics().merges_copied; }
  /// Blocks the borrower's tasks.
  void hold() { other.wait(gate.next()); }
  void go_on() { EXPECT_TRUE(gate.signal(++opened).ok()); }

  const Device other = backend.physical_device(0).new_virtual_device();
  const Device third = backend.physical_device(0).new_virtual_device();
  const Tensor g{"g", f32, {4}};
  const Context source = Context(device).with(g, {Buffer::allocate(device, g.type()), g.type()});
  const Routine consumer = adder(other);
  sched::ExternalTimeline gate{"gate"};
  std::uint64_t opened = 0;
};
HEDDLE_CONFORMANCE_SUITE(StreamOrderTest);

// D9, D6, D8: a write from any device and of any kind: the source is copied once, and the values of
// the load stay until the next load
TEST_P(StreamOrderTest, WritesComeAfterACopy) {
  const Routine mine = filler(device, view(), 7), its = filler(other, view(), 7);
  const std::vector<float> sevens(4, 7);
  const BufferView sevens_there(Buffer::allocate(third, g.type()), g.type());
  EXPECT_TRUE(sevens_there.from_host(third, std::as_bytes(std::span(sevens))).wait().ok());
  const std::function<void()> writes[] = {
      [&] { mine.schedule(); }, [&] { its.schedule(); }, [&] { source.write(g, sevens); },
      [&] { view().copy_from(third, sevens_there); },
      [&] { view().from_host(third, std::as_bytes(std::span(sevens))); }};
  for (const auto& write : writes) {
    // repeated, to bring launches onto the path without a lock
    for (int k = 0; k < 3; ++k) write();
    fresh();
    const std::uint64_t before = copied();
    load();
    write();
    write();
    EXPECT_THAT(consumed(), Each(5));
    write();
    EXPECT_THAT(consumed(), Each(5)) << "it stays until the next load";
    EXPECT_THAT(source.read<float>(g), Each(7));
    EXPECT_EQ(copied(), before + 1);
  }
}

// D9: no copy for writes of bytes that are not borrowed, or whose loan has ended
TEST_P(StreamOrderTest, OtherWritesCopyNothing) {
  const std::vector<float> sevens(4, 7);
  const Buffer pair = Buffer::allocate(device, {f32, {8}});
  const Context low = Context(device).with(g, {pair, g.type()});
  low.write(g, sevens);
  static_cast<void>(load_merge(consumer, low, MergeMode::stream));
  Context(device).with(g, {pair, g.type(), 16}).write(g, sevens);
  load();
  low.write(g, sevens);
  merge(consumer, source, MergeMode::stream);
  source.write(g, sevens);
  EXPECT_EQ(copied(), 0U);
}

// D9: a write in manual order makes no copy either, and the consumer reads the written values
TEST_P(StreamOrderTest, WritesInTheCallersOrderCopyNothing) {
  const Routine writer = filler(device, view(), 7);
  load();
  EXPECT_TRUE(writer.schedule({}, {.sync = Sync::manual}).wait().ok());
  EXPECT_THAT(consumed(), Each(7));
  EXPECT_EQ(copied(), 0U);
}

// D9, D16: launches on the path without a lock copy a loan to their own device
TEST_P(StreamOrderTest, ItsOwnDeviceCopiesToo) {
  const Routine own = adder(device), writer = filler(device, view(), 7);
  for (int k = 0; k < 3; ++k) {
    for (int again = 0; again < 3; ++again) writer.schedule();
    fresh();
    own.context().write(g, std::vector<float>(4, 0));
    static_cast<void>(load_merge(own, source, MergeMode::stream));
    writer.schedule();
    own.schedule();
    EXPECT_THAT(own.context().read<float>(g), Each(5));
  }
}

// D9: the write waits for the copy, which the borrower makes in its own queue order
TEST_P(StreamOrderTest, TheWriteWaitsForTheCopy) {
  const Routine writer = filler(third, view(), 7);
  load();
  third.await();
  hold();
  const Event written = writer.schedule();
  EXPECT_FALSE(written.wait_for(5ms).ok());
  const Event last = consumer.schedule();
  go_on();
  EXPECT_TRUE(written.wait().ok());
  EXPECT_TRUE(last.wait().ok());
  EXPECT_THAT(consumer.context().read<float>(g), Each(5));
}

// D9, S10: a failed or destroyed borrower does not block writes: its merge buffer is empty
TEST_P(StreamOrderTest, BorrowersThatFailAreLeft) {
  load();
  other.await();
  EXPECT_FALSE(
      other.submit("fails", [] { return Status(ErrorCode::internal, "broken"); }).wait().ok());
  const std::vector<float> sevens(4, 7);
  source.write(g, sevens);
  EXPECT_EQ(failure([&] { other.await(); }).code(), ErrorCode::device_failed);
  other.recover();
  EXPECT_THAT(text(failure([&] { consumer.schedule(); })), HasSubstr("holds none"));
  load();
  other.finalize();
  source.write(g, sevens);
  EXPECT_THAT(source.read<float>(g), Each(7));
}

// D9, D17: donated memory belongs to the new owner, even if a merge buffer borrowed it before
TEST_P(StreamOrderTest, DonationEndsALoan) {
  load();
  const BufferView taken(view().buffer().donate(), g.type());
  Context(device).with(g, taken).write(g, std::vector<float>(4, 7));
  EXPECT_EQ(copied(), 0U);
  EXPECT_THAT(text(failure([&] { consumer.schedule(); })), HasSubstr("donated"));
}

// D9, D17: a routine that takes the memory waits for a copy, like any write, in manual order too
TEST_P(StreamOrderTest, TakersComeAfterACopy) {
  const Tensor h("h", f32, {4});
  Program p("take");
  Index i;
  p << (h(i) = g(i) + 1.0);
  const Code code = backend.compile(p);
  for (const Sync sync : {Sync::automatic, Sync::manual}) {
    const Context own = Context(device).with(g, {Buffer::allocate(device, g.type()), g.type()});
    own.write(g, std::vector<float>(4, 5));
    const Routine taker = own.link(code, {.donate = {g}});
    const std::uint64_t before = copied();
    consumer.context().write(g, std::vector<float>(4, 0));
    static_cast<void>(load_merge(consumer, own, MergeMode::stream));
    taker.schedule({}, {.sync = sync});
    EXPECT_THAT(consumed(), Each(5));
    EXPECT_THAT(taker.context().read<float>(h), Each(6));
    EXPECT_EQ(copied(), before + 1);
  }
}

// D9, S4, D3: without room or memory for the copy the write is refused, without side effects
TEST_P(StreamOrderTest, WritesWithoutACopyAreRefused) {
  BackendOptions options;
  options.name = GetParam();
  options.bytes_max = 4096;
  options.scheduling.device.queue_size = 4;
  const Backend small = Backend::open(options);
  const Device lender = small.physical_device(0).new_virtual_device();
  const Device borrower = small.physical_device(0).new_virtual_device();
  const Tensor large("large", f32, {600});
  const Context from =
      Context(lender).with(large, {Buffer::allocate(lender, large.type()), large.type()});
  from.write(large, std::vector<float>(600, 5));
  Program p("sum");
  Index i, j;
  const Tensor sum("sum", f32, {1});
  p << (sum(j) += merge(large)(i));
  const Routine sums = Context(borrower).link(small.compile(p));
  std::vector<Buffer> rest;
  while (failure([&] { rest.push_back(Buffer::allocate(borrower, {f32, {64}})); }).ok()) continue;
  static_cast<void>(load_merge(sums, from, MergeMode::stream));
  const std::vector<float> sevens(600, 7);
  const auto writes = [&] { from.view(large).from_host(lender, std::as_bytes(std::span(sevens))); };
  EXPECT_THAT(text(failure(writes)),
              AllOf(HasSubstr("exhausted"), HasSubstr("'from_host' on " + lender.name()),
                    HasSubstr("merge buffer of " + borrower.name()), HasSubstr("'large'")));
  rest.clear();
  borrower.await();
  sums.schedule();
  EXPECT_THAT(sums.context().read<float>(sum), Each(3000));
  EXPECT_EQ(borrower.statistics().merges_copied, 0U);
}

}  // namespace
}  // namespace heddle
