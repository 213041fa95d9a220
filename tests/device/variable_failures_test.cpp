// Values of variables after updating calls that were refused, skipped, or failed.
#include <atomic>
#include <optional>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "tests/device/executors_fixture.hpp"

namespace heddle {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

class VariableFailuresTest : public ExecutorsFixture {
 protected:
  using Sums = Variable<Array>;
  using Pairs = Variable<std::pair<Array, Array>>;
  /// Adds to the variable, and returns the old value.
  [[nodiscard]] auto adding(const Sums& sum) const {
    return Executor(device, "add", [=](const Graph& graph, Node by) {
      const Node before = sum.read(graph);
      sum.update(graph, before + by);
      return before;
    });
  }
};
HEDDLE_CONFORMANCE_SUITE(VariableFailuresTest);

// F6: an update that was accepted and did not run keeps the old value: for an update in place, for
// an update that copies because a caller holds the value, and for leaves that change places
TEST_P(VariableFailuresTest, SkippedUpdatesLeaveTheOldValue) {
  const Device other = another();
  const Sums sum("sum", row({1, 2}));
  const Pairs both("both", {row({1}), row({2})});
  const Executor add = adding(sum);
  const Executor swap(device, [=](const Graph& graph, Node x) {
    const auto [a, b] = both.read(graph);
    both.update(graph, {b + x, a});
    return x;
  });
  const Array one = row({1, 1}), by = row({3});
  for (int k = 0; k < 2; ++k) {
    add(one);
    swap(by);
  }
  for (const bool shared : {false, true}) {
    std::optional<Array> kept, also, last;
    device.await();
    {
      Gate gate(device);
      static_cast<void>(device.submit("disk", [] { throw std::runtime_error("full"); }));
      for (int k = 0; k < 3; ++k) {
        if (shared) kept = both.value().first, also = sum.value();
        add(one);
        swap(by);
      }
      last = add.on(other)(one);
      if (shared) kept = sum.value();
    }
    EXPECT_FALSE(last->wait().ok());
    device.recover();
    if (!other.timeline().status().ok()) other.recover();
    EXPECT_THAT(both.value().first.values<float>(), ElementsAre(4));
    EXPECT_THAT(both.value().second.values<float>(), ElementsAre(5));
    EXPECT_THAT(sum.value().values<float>(), shared ? ElementsAre(4, 5) : ElementsAre(3, 4));
    EXPECT_THAT(add(one).values<float>(), shared ? ElementsAre(4, 5) : ElementsAre(3, 4));
    if (!kept) continue;
    EXPECT_THAT(refusal(ErrorCode::device_failed, [&] { static_cast<void>(kept->to_host()); }),
                HasSubstr("full"));
    EXPECT_FALSE(failure([&] { static_cast<void>(kept->copy()); }).ok());
  }
  EXPECT_THAT(sum.value().values<float>(), ElementsAre(5, 6));
}

// F4, F6: a refused call changes no variable; nor does a call skipped because an argument failed; a
// value that was never produced is missing until the variable is set again
TEST_P(VariableFailuresTest, FailedCallsAreNoUpdates) {
  const Device other = another();
  const Sums sum("sum", row({1, 2}));
  const Executor add = adding(sum);
  static_cast<void>(add(row({0, 0})));
  EXPECT_FALSE(add.try_call(row({1, 2, 3})));
  const Array gone = lost(other);
  static_cast<void>(gone.wait());
  EXPECT_FALSE(add.try_call(gone));
  EXPECT_THAT(sum.value().values<float>(), ElementsAre(1, 2));
  other.recover();
  {
    Gate gate(other);
    const Array result = add(lost(other));
    gate.open();
    EXPECT_THAT(text(result.wait()), HasSubstr("unplugged"));
  }
  if (!device.timeline().status().ok()) device.recover();
  EXPECT_THAT(add(row({0, 0})).values<float>(), ElementsAre(1, 2));
  other.recover();
  sum.set(lost(other));
  static_cast<void>(sum.value().wait());
  EXPECT_THAT(refusal(ErrorCode::failed_precondition, [&] { add(row({0, 0})); }),
              AllOf(HasSubstr("parameter 'sum' f32[2] did not come"), HasSubstr("unplugged")));
  sum.set(row({5, 6}));
  EXPECT_THAT(add(row({0, 0})).values<float>(), ElementsAre(5, 6));
}

// F6: an update repeats if the variable was set meanwhile: the next update on another thread starts
// from the value that a thread set
TEST_P(VariableFailuresTest, UpdatesComeBeforeOrAfterASet) {
  const Sums sum("sum", row({0}));
  const Executor step(device, [=](const Graph& graph) {
    sum.update(graph, sum.read(graph) + 1.0);
    return sum.read(graph) * 1.0;
  });
  std::vector<Array> values;
  for (int k = 1; k <= 100; ++k) values.push_back(row({static_cast<float>(k * 1000)}));
  std::atomic<int> set = 0, steps = 0;
  std::thread stepping([&] {  // the only user of the device
    for (int seen = 0; seen < 100;) {
      seen = set;
      EXPECT_GT(step().values<float>()[0], seen * 1000);
      ++steps;
    }
  });
  for (; set < 100; ++set) {
    while (steps < 5 * set) std::this_thread::yield();
    sum.set(std::move(values[static_cast<std::size_t>(set)]));
  }
  stepping.join();
}

}  // namespace
}  // namespace heddle
