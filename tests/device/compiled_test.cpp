// Executor functions compiled before their first call, and the search for NaN.
#include <chrono>
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tests/device/executors_fixture.hpp"

namespace heddle {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

class CompiledTest : public ExecutorsFixture {
 protected:
  /// A function of three arguments, the last one unused.
  [[nodiscard]] auto scaling() const {
    return Executor(
        device,
        [](Node each, Node scale, Node /*unused*/) { return std::pair(each * scale, sum(each)); },
        {.name = "scale", .argument_names = {"x", "scale", "rest"}});
  }
  const ArrayType four{f32, {4}}, one{f32, {1}};
  const Array x = row({1, 2, 3, 4}), by = row({10});
};
HEDDLE_CONFORMANCE_SUITE(CompiledTest);

// Calls find a function compiled ahead of time; the compile runs no function and takes no arguments
TEST_P(CompiledTest, CallsFindWhatWasCompiled) {
  const Executor scale = scaling();
  const auto compiled = scale.compile(four, by, donate(x));
  EXPECT_TRUE(x.live());
  EXPECT_EQ(compiled.name(), "scale#0");
  EXPECT_EQ(compiled.graph().traced.name(), "scale#0");
  EXPECT_EQ(device.statistics().launches, 0U);
  EXPECT_THAT(scale(x, by, x).first.values<float>(), ElementsAre(10, 20, 30, 40));
  EXPECT_EQ(scale.compile(x, one, Values(4)).name(), "scale#0");
  EXPECT_EQ(scale.statistics().traces, 1U);
  const auto [scaled, total] = compiled(donate(x), by, Values(4));
  EXPECT_THAT(scaled.values<float>(), ElementsAre(10, 20, 30, 40));
  EXPECT_EQ(total.item<float>(), 10);
  EXPECT_FALSE(x.live());
  EXPECT_THAT(compiled.call_unchecked(by, by, by).second.type(), (ArrayType{f32, {}}));
}

// G3: calls to a copy on another device run there, also with functions compiled there
TEST_P(CompiledTest, OtherDevicesHaveAllCalls) {
  const Device other = another();
  const Executor inc = plus_one();
  const auto there = inc.on(other);
  const auto compiled = there.compile(four);
  EXPECT_EQ(there(x).device(), other);
  EXPECT_EQ(there.try_call(x).results->device(), other);
  EXPECT_EQ(there.call(std::vector<Array>{x}).at(0).device(), other);
  EXPECT_EQ(there.traced(x).results.device(), other);
  EXPECT_EQ(compiled(x).device(), other);
  EXPECT_EQ(there.compile_async(four).get()(x).device(), other);
  const Array before(other, Values{1, 2, 3, 4});
  const Recording recording;
  const Array recorded = there.record(recording, before);
  EXPECT_EQ(recorded.device(), other);
  static_cast<void>(recording.finish().run());
  other.await();
  EXPECT_THAT(recorded.values<float>(), ElementsAre(2, 3, 4, 5));
  EXPECT_EQ(inc.statistics().traces, 1U);
  const Device foreign = Backend::open("sync_cc").physical_device(0).new_virtual_device();
  EXPECT_EQ(inc.on(foreign).compile(four)(x).device(), foreign);
}

// Functions compiled ahead of time serve calls that donate large arrays; types can be donated too
TEST_P(CompiledTest, LargeDonationsFindWhatWasCompiled) {
  const Dims large{1 << 16};
  const auto big = [&] { return Array(device, large, Values(1 << 16, 1)); };
  const Executor inc = plus_one({.name = "inc", .cache_max = 1});
  static_cast<void>(inc.compile(ArrayType{f32, large}));
  EXPECT_EQ(inc(donate(big())).values<float>()[1], 2);
  EXPECT_EQ(inc.statistics().misses, 0U);
  EXPECT_EQ(inc.statistics().traces, 1U);
  const Executor in_place = plus_one({.name = "in_place", .cache_max = 1});
  static_cast<void>(in_place.compile(donate(ArrayType{f32, large})));
  EXPECT_EQ(in_place(donate(big())).values<float>()[1], 2);
  EXPECT_EQ(in_place.statistics().misses, 0U);
  EXPECT_THAT(refusal(ErrorCode::exhausted, [&] { in_place(big()); }),
              HasSubstr("is called with large arguments that are not donated"));
}

// Moved-from handles are not empty
TEST_P(CompiledTest, AreNeverEmpty) {
  Executor inc = plus_one();
  auto pending = inc.compile_async(four);
  const auto also_pending = std::move(pending);
  auto compiled = pending.get();
  const auto also_compiled = std::move(compiled);
  const Executor also_inc = std::move(inc);
  EXPECT_THAT(compiled(x).values<float>(), ElementsAre(2, 3, 4, 5));
  EXPECT_THAT(also_compiled(x).values<float>(), ElementsAre(2, 3, 4, 5));
  EXPECT_THAT(also_pending.get()(x).values<float>(), ElementsAre(2, 3, 4, 5));
  EXPECT_THAT(inc(x).values<float>(), ElementsAre(2, 3, 4, 5));
  EXPECT_EQ(also_inc.name(), inc.name());
}

// Describes its arguments, results, memory and operations
TEST_P(CompiledTest, TellsWhatItDoes) {
  const auto compiled = scaling().compile(four, one, one);
  EXPECT_EQ(compiled.signature(),
            "x: f32[4]\nscale: f32[1]\nrest: f32[1], unused\n"
            "-> result '0': f32[4], may have the memory of x\n-> result '1': f32[]\n");
  EXPECT_THAT(compiled.text(), AllOf(HasSubstr("heddle-loop"), HasSubstr("f32[4]")));
  const CompiledMemory memory = compiled.memory();
  EXPECT_EQ(memory.arguments, 24U);
  EXPECT_EQ(memory.results, 20U);
  EXPECT_EQ(memory.reusable, 16U);
  EXPECT_EQ(memory.scratch, 0U);
  const CompiledCost cost = compiled.cost();
  EXPECT_GE(cost.operations, 7U);
  EXPECT_LE(cost.operations, 8U);
  EXPECT_GE(cost.bytes_read, 20U);
  EXPECT_EQ(cost.bytes_written, 20U);
  const auto product = Executor(device, [](Node a, Node b) {
                         return matmul(a, b);
                       }).compile(ArrayType{f32, {3, 5}}, ArrayType{f32, {5, 4}});
  // Where a multiply-add is rounded once, the multiply-add counts as one operation.
  EXPECT_EQ(product.cost().operations, backend.name() == "cuda" ? 120U : 60U);
  EXPECT_EQ(product.cost().bytes_written, 48U);
}

// F4: other types are refused, also for unused arguments: the message names the first five
TEST_P(CompiledTest, OtherTypesAreRefused) {
  const auto compiled = scaling().compile(four, one, one);
  const std::string what = "executor 'scale', graph 'scale#0': ";
  EXPECT_THAT(refusal(ErrorCode::invalid_argument, [&] { compiled(donate(x), by, x); }),
              HasSubstr(what + "1 argument differs from what it was compiled for: argument 2 of 3, "
                               "'rest': compiled for f32[1], called with f32[4]"));
  EXPECT_THAT(refusal(ErrorCode::invalid_argument, [&] { compiled(x, 1.0, by); }),
              HasSubstr("argument 1 of 3, 'scale': compiled for f32[1], called with f32[]"));
  EXPECT_THAT(refusal(ErrorCode::invalid_argument, [&] { compiled(x, by); }),
              HasSubstr(what + "compiled for 3 arrays, but called with 2"));
  const Executor list(device, [](const std::vector<Node>& all, const std::vector<Node>& more) {
    return all[0] + more[0];
  });
  const auto six = list.compile(std::vector<ArrayType>(6, one), std::vector<ArrayType>(1, one));
  using List = std::vector<Array>;
  EXPECT_THAT(refusal(ErrorCode::invalid_argument, [&] { six(List(6, x), List(1, x)); }),
              AllOf(HasSubstr("7 arguments differ from what it was compiled for: argument 0"),
                    HasSubstr("argument 4 of 7"), HasSubstr("; and 2 more"),
                    Not(HasSubstr("argument 5 of 7"))));
  EXPECT_THAT(refusal(ErrorCode::invalid_argument, [&] { six(List(5, by), List(2, by)); }),
              HasSubstr("called with another structure than"));
  EXPECT_THAT(six(List(6, by), List(1, by)).values<float>(), ElementsAre(20));
  EXPECT_TRUE(x.live());
}

// A call waits for a compile in progress, or gets the compile's error
TEST_P(CompiledTest, CompilesMeanwhile) {
  const Executor step(device, [](Node each) {
    if (each.rank() == 0) throw Error(ErrorCode::not_found, "no weights");
    return each * 2;
  });
  const auto pending = step.compile_async(four);
  EXPECT_TRUE(pending.wait_for(std::chrono::seconds(60)).ok());
  EXPECT_TRUE(pending.done());
  EXPECT_TRUE(pending.event().done());
  EXPECT_THAT(pending.get()(x).values<float>(), ElementsAre(2, 4, 6, 8));
  EXPECT_THAT(step(x).values<float>(), ElementsAre(2, 4, 6, 8));
  EXPECT_EQ(step.statistics().traces, 1U);
  const auto failing = step.compile_async(ArrayType{f32, {}});
  EXPECT_THAT(refusal(ErrorCode::not_found, [&] { static_cast<void>(failing.get()); }),
              HasSubstr("no weights"));
  EXPECT_EQ(failing.event().wait().code(), ErrorCode::not_found);
  EXPECT_EQ(step.statistics().entries, 1U);
}

// The error names the first node with a NaN or an infinity, its scope, and the number of elements
TEST_P(CompiledTest, FindsTheFirstNan) {
  const Executor normal(device,
                        [](const Graph& graph, Node each) {
                          const Node less = each - 1;
                          const auto scope = graph.scope("layer");
                          return sum(log(less), {0}) * 2;
                        },
                        {.name = "normal", .nan_check = true});
  const Array good(device, {2, 3}, Values{2, 2, 2, 2, 2, 2});
  EXPECT_TRUE(normal(good).done());
  const Array bad(device, {2, 3}, Values{2, 2, 2, 2, 1, 1});
  const std::string why = refusal(ErrorCode::failed_precondition, [&] { normal(bad); });
  EXPECT_THAT(why, AllOf(HasSubstr("executor 'normal', graph 'normal#0': "),
                         HasSubstr("log f32[2,3] (compiled_test.cpp:"),
                         HasSubstr(" in 'layer' is the first node with a NaN or an infinity: 2 of "
                                   "6 elements, the first at [1,1], -inf")));
  EXPECT_THAT(refusal(ErrorCode::failed_precondition, [&] { normal(Values{5, NAN}); }),
              HasSubstr("%0 'arg0' f32[2]"));
  if (device.timeline().status().ok()) {
    const Event inside = device.submit("inside", [&] { normal(good); }, {.contain = true});
    EXPECT_THAT(text(inside.wait()),
                HasSubstr("executor 'normal', graph 'normal#0': nan_check cannot read"));
  }
  const Executor whole(device, [](Node each) { return each + 1; }, {.nan_check = true});
  EXPECT_EQ(whole(1).item<std::int32_t>(), 2);
  EXPECT_THAT(whole(std::vector<double>{1, 2}).values<double>(), ElementsAre(2, 3));
  EXPECT_THAT(refusal(ErrorCode::failed_precondition, [&] { whole(HUGE_VAL); }),
              HasSubstr("f64[]"));
}

// Infinities that do not reach a result are ignored, as are intended infinities; where a result has
// a NaN, infinities count only as operands of the node that made the NaN
TEST_P(CompiledTest, NansMatterWhereResultsHaveThem) {
  const Executor fine(device,
                      [](Node each) {
                        const Node masked = where(each > 0, each, -INFINITY);
                        return std::pair(sigmoid(each * 1000), softmax(masked));
                      },
                      {.nan_check = true});
  EXPECT_THAT(fine(Values{-1, 1}).first.values<float>(), ElementsAre(0, 1));
  const Executor bad(device,
                     [](Node each) {
                       const Node large = exp(each), other = log(each * 0);
                       return 1 / (1 + large) + (large - large) + 0 * where(other > 0, other, 0);
                     },
                     {.nan_check = true});
  const std::string why = refusal(ErrorCode::failed_precondition, [&] { bad(Values{1, 1000}); });
  EXPECT_THAT(why, AllOf(HasSubstr(" sub f32[2]"), HasSubstr("1 of 2 elements, the first at [1]")));
}

// Compiles do not count as calls; calls of compiled functions do not count as misses
TEST_P(CompiledTest, StatisticsCountCalls) {
  const Executor inc = plus_one();
  static_cast<void>(inc.compile(four));
  static_cast<void>(inc.compile(four));
  static_cast<void>(inc.compile_async(four).get());
  inc(x);
  EXPECT_EQ(inc.statistics().calls, 1U);
  EXPECT_LE(inc.statistics().misses, 1U);
  EXPECT_EQ(inc.statistics().traces, 1U);
}

}  // namespace
}  // namespace heddle
