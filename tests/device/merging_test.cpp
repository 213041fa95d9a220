// Merge buffers: one per virtual device, one mode, arrays of every size.
#include "tests/device/backends.hpp"

namespace heddle {
namespace {

using testing::AllOf;
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
  /// A routine that adds the merge buffer of `t` to it.
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

// D6, O33: code for one mode takes that one; the other is refused at the call, and where the call
// does not know the consumer, when the routine runs
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
    EXPECT_THAT(text(strict.schedule().wait()),
                AllOf(HasSubstr("'strict'"), HasSubstr(rule), HasSubstr("'g'"),
                      HasSubstr("loaded by " + std::string(name(wrong)))));
    other.recover();
    EXPECT_TRUE(merge(strict, source.context(), only).wait().ok());
    EXPECT_THAT(strict.context().read<float>(g), ElementsAre(5, 5));
  }
}

// D6, O36, O37: devices on one physical device have merge buffers of their own, which grow in
// order, while what was queued before still reads the smaller one
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

// D3, D5, D6: arrays without elements and scalars move like any other
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

}  // namespace
}  // namespace heddle
