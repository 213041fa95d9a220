// Recorded executor calls, and arguments padded to a few sizes.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "tests/device/executors_fixture.hpp"

namespace heddle {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class ExecutorReplayTest : public ExecutorsFixture {};
HEDDLE_CONFORMANCE_SUITE(ExecutorReplayTest);

// D16: each run recomputes the results from the current array contents, in the results' memory
TEST_P(ExecutorReplayTest, RunsComputeWhatWasRecorded) {
  const Executor scaled(device, "scaled",
                        [](Node x, Node by) { return std::pair(x * by, sum(x)); });
  const Array x = row({1, 2, 3});
  Recording recording("steps");
  const auto [once, total] = scaled.record(recording, x, std::vector<float>{2, 3, 4});
  const auto [twice, whole] = scaled.record(recording, once, x);
  EXPECT_THAT(once.values<float>(), ElementsAre(0, 0, 0));
  EXPECT_THAT(twice.values<float>(), ElementsAre(0, 0, 0));
  const Replay steps = recording.finish();
  EXPECT_EQ(steps.num_tasks(), 1U);
  for (const float first : {1.F, 5.F}) {
    const std::vector<float> values{first, 2, 3};
    x.view().from_host(device, std::as_bytes(std::span(values))).wait();
    steps.run();
    EXPECT_THAT(once.values<float>(), ElementsAre(2 * first, 6, 12));
    EXPECT_THAT(twice.values<float>(), ElementsAre(2 * first * first, 12, 36));
    EXPECT_EQ(total.item<float>(), first + 5);
    EXPECT_EQ(whole.item<float>(), 2 * first + 18);
  }
  // A direct call gets its own memory.
  EXPECT_THAT(scaled(x, x).first.values<float>(), ElementsAre(25, 4, 9));
  EXPECT_THAT(once.values<float>(), ElementsAre(10, 6, 12));
}

// D17: a call that donates an array cannot be recorded, and the array stays valid
TEST_P(ExecutorReplayTest, DonatedArraysAreRefused) {
  const Executor inc = plus_one();
  const Array x = row({1, 2});
  Recording recording;
  EXPECT_THAT(refusal(ErrorCode::invalid_argument, [&] { inc.record(recording, donate(x)); }),
              HasSubstr("cannot be donated to a call that is recorded"));
  const Variable total("total", row({0, 0}));
  const Executor add(device, "add", [=](const Graph& graph, Node by) {
    total.update(graph, total.read(graph) + by);
  });
  EXPECT_THAT(refusal(ErrorCode::invalid_argument, [&] { add.record(recording, x); }),
              HasSubstr("updates variable 'total'"));
  EXPECT_THAT(x.values<float>(), ElementsAre(1, 2));
  EXPECT_THAT(total.value().values<float>(), ElementsAre(0, 0));
}

// G14: few graphs serve many sizes; elements keep their places
TEST_P(ExecutorReplayTest, ArgumentsArePaddedToFewSizes) {
  const Executor inc = plus_one();
  const Dims sizes{8, 2, 4};
  for (std::int64_t size = 0; size <= 8; ++size) {
    const std::vector<float> values(static_cast<std::size_t>(size), 1);
    const Array sum = inc(padded(HostArray::of(Dims{size}, values), 0, sizes));
    EXPECT_EQ(sum.dims()[0], padded_extent(size, sizes));
    std::vector<float> wanted(static_cast<std::size_t>(sum.dims()[0]), 1);
    std::fill_n(wanted.begin(), size, 2.F);
    EXPECT_EQ(sum.values<float>(), wanted);
  }
  EXPECT_EQ(inc.statistics().traces, 3U);
  const HostArray table = HostArray::range({i16, {2, 3}});
  EXPECT_THAT(padded(table, -1, {4}, -7).values<std::int16_t>(),
              ElementsAre(0, 1, 2, -7, 3, 4, 5, -7));
  EXPECT_THAT(padded(Array(device, table), -1, {5}).values<std::int16_t>(),
              ElementsAre(0, 1, 2, 0, 0, 3, 4, 5, 0, 0));
  EXPECT_THAT(padded(Array(device, table), 0, {3}).values<std::int16_t>(),
              ElementsAre(0, 1, 2, 3, 4, 5, 0, 0, 0));
  for (const double value : {40000.0, 0.5, std::nan("")}) {
    EXPECT_THAT(refusal(ErrorCode::invalid_argument,
                        [&] { static_cast<void>(padded(table, 0, {3}, value)); }),
                HasSubstr("which i16 does not hold"));
  }
  EXPECT_TRUE(std::isnan(padded(HostArray::range({f32, {1}}), 0, {2}, std::nan("")).at(1)));
  const Array same(device, table);
  EXPECT_EQ(padded(same, 0, {2, 9}), same);
  EXPECT_THAT(
      refusal(ErrorCode::invalid_argument, [&] { static_cast<void>(padded(same, 0, {1})); }),
      HasSubstr("an extent of 2 is to be padded to one of [1] (expected one that is at"));
  EXPECT_THAT(
      refusal(ErrorCode::invalid_argument, [&] { static_cast<void>(padded(same, 2, {9})); }),
      HasSubstr("axis 2 of i16[2,3] (expected one of its 2 axes)"));
}

}  // namespace
}  // namespace heddle
