// Sync::check: reports every missing order, for every kind of use, and reports nothing for
// correctly ordered programs.
#include <cstdint>
#include <functional>
#include <vector>

#include "tests/device/backends.hpp"
#include "tests/device/found_orders.hpp"

namespace heddle {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class CheckTest : public testing::TestWithParam<std::string> {
 protected:
  CheckTest() {
    source.write(x, std::vector<float>(4, 1));
    there.write(x, std::vector<float>(4, 1));
    settle();
  }
  void settle() const {
    one.await();
    two.await();
    static_cast<void>(found.take());
  }
  Routine link(const Device& on, const Program& program, const BufferView& at) const {
    return Context(on).with(x, at).link(backend.compile(program));
  }
  Program fill() const {
    Program p("fill");
    p << (x(i) = Expr(2.0));
    return p;
  }
  Program add() const {
    Program p("add");
    p << (x(i) += merge(x)(i));
    return p;
  }
  Program grow() const {
    Program p("grow");
    p << (x(i) += 1);
    return p;
  }
  static Context holding(const Device& on, const Tensor& tensor) {
    return Context(on).with(tensor, BufferView(Buffer::allocate(on, tensor.type()), tensor.type()));
  }

  const FoundOrders found;
  const Backend backend = found.open(GetParam());
  const Device one = backend.physical_device(0).new_virtual_device();
  const Device two = backend.physical_device(0).new_virtual_device();
  const HostArray storage = HostArray::fill({f32, {4}}, std::vector<double>{1});
  const Tensor x{"x", storage};
  const Index i{};
  const Context source = holding(one, x), there = holding(two, x);
  const Routine filler = link(one, fill(), source.view(x));
  const Routine grower = link(two, grow(), source.view(x));  // touches the other device's memory
  const Routine consumer = link(two, add(), there.view(x));
};
HEDDLE_CONFORMANCE_SUITE(CheckTest);

// D9, J6: rows selected by static indices are tracked separately
TEST_P(CheckTest, RowsOfStaticIndices) {
  const Tensor rows("rows", f32, {8, 4});
  const StaticIndex row{"row"};
  Program fills("fills"), sums("sums");
  fills << (rows(row, i) = Expr(2.0));
  sums << (x(i) += rows(row, i));
  const Context at = holding(one, rows);
  at.write(rows, std::vector<float>(32, 1));
  settle();
  const Routine fill_row = at.link(backend.compile(fills));
  const Routine sum_row = there.with(rows, at.view(rows)).link(backend.compile(sums));
  for (int k = 0; k < 4; ++k) {
    fill_row.schedule({k});
    sum_row.schedule({k + 4});
  }
  sum_row.schedule({2}, {.after = {one.record()}});
  EXPECT_THAT(found.take_labels(), IsEmpty());
  fill_row.schedule({5});
  const std::vector<MissingOrder> all = found.take();
  ASSERT_THAT(all, testing::SizeIs(1));
  EXPECT_THAT(all[0].to_string(),
              AllOf(HasSubstr("tensor 'rows' f32[8,4]"), HasSubstr("'fills' (" + one.name()),
                    HasSubstr("'sums' (" + two.name()), HasSubstr("bytes 80 to 96")));
  settle();
}

// D9: routines and copies
TEST_P(CheckTest, RoutinesAndCopies) {
  grower.schedule({}, {.after = {filler.schedule()}});
  settle();
  copy(x, source, there, {.after = {filler.schedule()}});
  filler.schedule({}, {.after = {two.record()}});
  EXPECT_THAT(found.take_labels(), IsEmpty());
  settle();
  filler.schedule();
  grower.schedule();
  EXPECT_THAT(found.take_labels(), ElementsAre("fill < grow"));
  settle();
  copy(x, source, there);
  filler.schedule();
  const std::vector<MissingOrder> all = found.take();
  ASSERT_THAT(all, testing::SizeIs(1));
  EXPECT_THAT(all[0].to_string(),
              AllOf(HasSubstr("tensor 'x' f32[4]"), HasSubstr("'copy' (" + two.name()),
                    HasSubstr("'fill' (" + one.name()), HasSubstr("bytes 0 to 16"),
                    HasSubstr("check_test.cpp")));
  EXPECT_EQ(backend.missing_orders(), 2U);
}

// D9, D6: a stream reads its source when its consumer runs
TEST_P(CheckTest, Streams) {
  const auto load = [&](MergeMode mode) {
    return load_merge(consumer, source, mode, {.after = {filler.schedule()}}).event;
  };
  load(MergeMode::stream);
  filler.schedule({}, {.after = {consumer.schedule()}});
  EXPECT_THAT(found.take_labels(), IsEmpty());
  settle();
  filler.schedule({}, {.after = {load(MergeMode::copy)}});
  consumer.schedule();
  EXPECT_THAT(found.take_labels(), IsEmpty());
  settle();
  const Event loaded = load(MergeMode::stream);
  consumer.schedule();
  filler.schedule({}, {.after = {loaded}});
  EXPECT_THAT(found.take_labels(), ElementsAre("add < fill"));
  settle();
  filler.schedule();
  merge(consumer, source, MergeMode::stream);
  EXPECT_THAT(found.take_labels(), ElementsAre("fill < add"));
}

// D9: transfers, and host access without a wait
TEST_P(CheckTest, HostStorage) {
  EXPECT_TRUE(source.to_host(x).event.wait().ok());
  static_cast<void>(storage.values<float>());
  const Event read = source.from_host(x).event;
  there.to_host(x, {.after = {read}}).event.wait();
  storage.set(0, 1);
  EXPECT_THAT(found.take_labels(), IsEmpty());
  settle();
  source.from_host(x);
  wait_unseen(one);
  there.to_host(x);
  wait_unseen(two);
  EXPECT_THAT(found.take_labels(), ElementsAre("from_host < to_host"));
  static_cast<void>(storage.at(0));
  EXPECT_THAT(found.take_labels(), ElementsAre("to_host < read of a HostArray"));
  storage.set(0, 1);
  EXPECT_THAT(found.take_labels(),
              ElementsAre("from_host < write of a HostArray", "to_host < write of a HostArray"));
  std::vector<std::uint32_t> lines, told_of;
  static_cast<void>(Context(one).link(backend.compile(grow()))), lines.push_back(__LINE__);
  static_cast<void>(Context(one).link(backend.compile(grow()))), lines.push_back(__LINE__);
  for (const MissingOrder& each : found.take()) {
    EXPECT_EQ(each.after.label, "linking what tensor 'x' begins with");
    EXPECT_THAT(each.mend(), HasSubstr("wait for the event of 'to_host'"));
    told_of.push_back(each.after.site.line());
  }
  EXPECT_EQ(told_of, lines);
  settle();
  static_cast<void>(Context(one).link(backend.compile(grow())));
  EXPECT_THAT(found.take_labels(), IsEmpty());
}

// D9: the inside of a replay is ordered; its edges are checked like the edges of its calls
TEST_P(CheckTest, Replays) {
  Recording recording("step");
  recording.schedule(filler);
  recording.copy(x, source, there);
  recording.merge(consumer, source, MergeMode::stream);
  recording.schedule(filler);
  const Replay replay = recording.finish();
  settle();
  const std::vector<Event> ends = replay.run();
  grower.schedule({}, {.after = ends});
  replay.run({}, {.after = {two.record()}});
  EXPECT_THAT(found.take_labels(), IsEmpty());
  settle();
  replay.run();
  grower.schedule();
  EXPECT_THAT(found.take_labels(), ElementsAre("step < grow"));
}

// D9: a typical user program, with and without the required order
TEST_P(CheckTest, MendedProgramsAreSilent) {
  for (const bool mended : {true, false}) {
    Event consumed;
    for (int k = 0; k < 3; ++k) {
      const auto after = [&](const Event& event) {
        return mended ? std::vector<Event>{event} : std::vector<Event>();
      };
      const Event filled = filler.schedule({}, {.after = after(consumed)});
      consumed = merge(consumer, source, MergeMode::stream, {}, {.after = after(filled)});
    }
    settle();
    EXPECT_EQ(backend.missing_orders(), mended ? 0U : 2U);
  }
}

}  // namespace
}  // namespace heddle
