// Executors: results of calls, accepted arguments, and error messages for invalid arguments.
#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "tests/device/executors_fixture.hpp"

namespace heddle {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

template <class T>
struct ExecutorsDense {
  T weight, bias;
};
template <class T>
HEDDLE_TREE(ExecutorsDense<T>, weight, bias)
template <class T>
struct ExecutorsScale {
  T weight, bias;
};
template <class T>
HEDDLE_TREE(ExecutorsScale<T>, weight, bias)

class ExecutorsTest : public ExecutorsFixture {};
HEDDLE_CONFORMANCE_SUITE(ExecutorsTest);

// F5: calls compute the function, which is traced only at the first call with new types
TEST_P(ExecutorsTest, ComputeWhatTheirFunctionsSay) {
  const Executor affine(device, [](Node x, Node w, Node b) { return matmul(x, w) + b; });
  const Array x(device, {2, 3}, Values{1, 2, 3, -1, 0, 1});
  const Array w(device, {3, 2}, Values{1, 2, 3, 4, 5, 6}), b = row({0.5F, 1});
  for (int round = 0; round < 3; ++round) {
    const Array y = affine(x, w, b);
    EXPECT_EQ(y.type(), (ArrayType{f32, {2, 2}}));
    EXPECT_EQ(y.device(), device);
    EXPECT_THAT(y.values<float>(), ElementsAre(22.5F, 29, 4.5F, 5));
  }
  EXPECT_EQ(affine.statistics().traces, 1U);
  EXPECT_THAT(affine(w, x, 1.0F).values<float>(), ElementsAre(0, 3, 6, 0, 7, 14, 0, 11, 22));
  const ExecutorStatistics told = affine.statistics();
  EXPECT_EQ(told.calls, 4U);
  EXPECT_EQ(told.misses, 2U);
  EXPECT_EQ(told.traces, 2U);
  EXPECT_EQ(told.compiles, 2U);
  EXPECT_EQ(told.entries, 2U);
  EXPECT_EQ(told.dropped, 0U);
  EXPECT_THAT(affine.name(), testing::StartsWith("executors_test.cpp:"));
  EXPECT_EQ(affine.device(), device);
}

// Trees are accepted as arguments and results, with every leaf in its place
TEST_P(ExecutorsTest, TakeAndGiveTrees) {
  using Named = std::map<std::string, Node>;
  const Executor mixed(device, [](const ExecutorsDense<Node>& d, const std::array<Node, 2>& pair,
                                  const Named& named, std::optional<Node> rest) {
    ExecutorsDense<Node> made{d.weight * 2, d.bias - pair[1]};
    Named also{{"n", named.at("n") + 1}, {"a", named.at("a") * 3}};
    return std::tuple(made, std::vector<Node>{pair[0] * 5, pair[0]}, also, std::move(rest));
  });
  const std::map<std::string, Array> named{{"n", row({7})}, {"a", row({8})}};
  const auto [dense, list, more, rest] =
      mixed(ExecutorsDense<Array>{row({1, 2}), row({3, 4})}, std::array{row({1}), row({1, 1})},
            named, std::optional<Array>(row({9})));
  EXPECT_THAT(dense.weight.values<float>(), ElementsAre(2, 4));
  EXPECT_THAT(dense.bias.values<float>(), ElementsAre(2, 3));
  ASSERT_EQ(list.size(), 2U);
  EXPECT_THAT(list[0].values<float>(), ElementsAre(5));
  EXPECT_THAT(list[1].values<float>(), ElementsAre(1));
  EXPECT_THAT(more.at("n").values<float>(), ElementsAre(8));
  EXPECT_THAT(more.at("a").values<float>(), ElementsAre(24));
  EXPECT_THAT(rest->values<float>(), ElementsAre(9));
}

// F5: arguments with the same leaves in different trees are distinguished, even when only the tree
// differs
TEST_P(ExecutorsTest, TellStructuresApart) {
  const Executor sums(device, [](const std::vector<Node>& a, const std::vector<Node>& b,
                                 const std::optional<Node>& c) {
    const auto of = [](const std::vector<Node>& list, Node all) {
      for (const Node& each : list) all = all + each;
      return all;
    };
    return std::tuple(of(a, a[0]), of(b, b[0]), c);
  });
  const Array one = row({1}), two = row({2}), four = row({4});
  using List = std::vector<Array>;
  const auto [a, b, c] = sums(List{one, two}, List{four}, std::optional<Array>());
  EXPECT_THAT(a.values<float>(), ElementsAre(4));
  EXPECT_THAT(b.values<float>(), ElementsAre(8));
  EXPECT_FALSE(c.has_value());
  const auto [d, e, f] = sums(List{one}, List{two, four}, std::optional<Array>());
  EXPECT_THAT(d.values<float>(), ElementsAre(2));
  EXPECT_THAT(e.values<float>(), ElementsAre(8));
  const auto [g, h, i] = sums(List{one}, List{two}, std::optional<Array>(four));
  EXPECT_THAT(i->values<float>(), ElementsAre(4));
  EXPECT_EQ(sums.statistics().traces, 3U);
}

// Generic functions are traced once per tree type, even with the same leaves
TEST_P(ExecutorsTest, TellTypesOfTreesApart) {
  const Executor generic(device, [](const auto& tree) {
    using Tree = std::remove_cvref_t<decltype(tree)>;
    if constexpr (std::same_as<Tree, ExecutorsDense<Node>>) {
      return tree.weight - tree.bias;
    } else if constexpr (std::same_as<Tree, ExecutorsScale<Node>>) {
      return tree.weight * tree.bias;
    } else {
      return tree[0] + tree[1];
    }
  });
  const Array two = row({2}), five = row({5});
  EXPECT_THAT(generic(ExecutorsDense<Array>{five, two}).values<float>(), ElementsAre(3));
  EXPECT_THAT(generic(std::array{five, two}).values<float>(), ElementsAre(7));
  EXPECT_THAT(generic(ExecutorsScale<Array>{five, two}).values<float>(), ElementsAre(10));
  EXPECT_EQ(generic.statistics().entries, 3U);
}

// Host values of any kind are copied before the call returns
TEST_P(ExecutorsTest, TakeValuesOfTheHost) {
  const Executor add(device, [](Node x, Node y) { return x + y; });
  Gate gate(device);
  Values list{1, 2};
  HostArray host = HostArray::range({f32, {2}});
  const Array sum = add(list, host);
  const Array span = add(std::span<const float>(list), 10.0F);
  list.assign(2, 99);
  host.set(0, 99);
  gate.open();
  EXPECT_THAT(sum.values<float>(), ElementsAre(1, 3));
  EXPECT_THAT(span.values<float>(), ElementsAre(11, 12));
  EXPECT_EQ(add(3, 4).item<std::int32_t>(), 7);
  EXPECT_EQ(add(std::int64_t{3}, 4).type(), (ArrayType{i64, {}}));
  EXPECT_EQ(add(3LL, 4L).type(), (ArrayType{i64, {}})) << "either type of 64 bits";
  EXPECT_THAT(add(std::vector<unsigned long long>{~0ULL}, 4ULL).values<std::uint64_t>(),
              ElementsAre(3));
}

// A function may take only its graph as argument
TEST_P(ExecutorsTest, TakeNothingButAGraph) {
  const Executor fixed(device, [](const Graph& graph) { return graph.constant(2.5) * 2; });
  EXPECT_EQ(fixed().item<float>(), 5);
  EXPECT_EQ(fixed().item<float>(), 5);
  EXPECT_EQ(fixed.statistics().traces, 1U);
  EXPECT_THAT(call_once(
                  device, [](Node x, Node y) { return x * y; }, 3, std::vector{1, 2})
                  .values<std::int32_t>(),
              ElementsAre(3, 6));
  const Array none(device, {0, 3}, Values{});
  EXPECT_EQ(plus_one()(none).type(), none.type());
}

// F6: results can be passed on before they are computed, also to other devices
TEST_P(ExecutorsTest, GiveArraysBeforeTheyCome) {
  const Device other = another();
  const Executor inc = plus_one();
  inc(row({0})).wait();
  Gate gate(device);
  const Array first = inc(row({1})), second = inc(first), there = inc.on(other)(second);
  EXPECT_FALSE(first.done());
  EXPECT_FALSE(there.done());
  EXPECT_TRUE(there.status().ok());
  EXPECT_EQ(there.device(), other);
  gate.open();
  EXPECT_THAT(there.values<float>(), ElementsAre(4));
  EXPECT_THAT(first.values<float>(), ElementsAre(2));
}

// F6: an owner of a failed result gets the first cause, on any device
TEST_P(ExecutorsTest, FailuresReachWhoHasTheResults) {
  const Device other = another();
  const Executor inc = plus_one();
  inc(row({0, 0})).wait();
  Gate gate(other);
  const Array x = lost(other);
  const Array y = inc(x), z = inc(y);
  EXPECT_TRUE(z.status().ok());
  gate.open();
  EXPECT_EQ(z.wait().root().code(), ErrorCode::device_failed) << text(z.wait());
  EXPECT_THAT(text(z.wait()), HasSubstr("unplugged"));
  EXPECT_THAT(text(failure([&] { static_cast<void>(y.to_host()); })), HasSubstr("unplugged"));
}

// Calls without trees: leaves in order
TEST_P(ExecutorsTest, CallWithoutTrees) {
  const Executor pair(device,
                      [](const ExecutorsDense<Node>& d, Node x) {
                        return ExecutorsDense<Node>{d.weight - x, d.bias * x};
                      },
                      {.name = "pair"});
  const std::vector leaves{row({5}), row({3}), row({2})};
  const std::vector<Array> found = pair.call(leaves);
  ASSERT_EQ(found.size(), 2U);
  EXPECT_THAT(found[0].values<float>(), ElementsAre(3));
  EXPECT_THAT(found[1].values<float>(), ElementsAre(6));
  pair(ExecutorsDense<Array>{leaves[0], leaves[1]}, leaves[2]);
  EXPECT_EQ(pair.statistics().traces, 1U);
  EXPECT_THAT(refusal(ErrorCode::invalid_argument,
                      [&] { static_cast<void>(pair.call(std::span(leaves).first(2))); }),
              HasSubstr("executor 'pair' takes 3 arrays, and is given 2"));
  const Executor last(device, [](const std::vector<Node>& list) { return list.back() + 1; });
  EXPECT_THAT(last.call(leaves)[0].values<float>(), ElementsAre(3));
  EXPECT_THAT(last.call(std::span(leaves).first(1))[0].values<float>(), ElementsAre(6));
}

// Exceptions of the function keep their type and are thrown by every call; try_call() does not
// throw
TEST_P(ExecutorsTest, TellWhatTheirFunctionsThrow) {
  const Executor none(device,
                      [](Node x) -> Node {
                        switch (x.dims()[0]) {
                          case 1:
                            throw std::runtime_error("no weights");
                          case 2:
                            throw std::bad_alloc();
                          case 3:
                            throw Error(ErrorCode::not_found, "file 'w'");
                          case 4:
                            throw 4;
                          default:
                            return x;
                        }
                      },
                      {.name = "none"});
  const auto told = [&](std::size_t n) { return none.try_call(Values(n)).status; };
  EXPECT_EQ(told(1).code(), ErrorCode::invalid_argument);
  EXPECT_THAT(text(told(1)), AllOf(HasSubstr("function 'none#"), HasSubstr("no weights"),
                                   HasSubstr("executors_test.cpp")));
  EXPECT_EQ(told(2).code(), ErrorCode::exhausted);
  EXPECT_EQ(told(3).code(), ErrorCode::not_found);
  EXPECT_EQ(told(4).code(), ErrorCode::invalid_argument);
  EXPECT_EQ(none.statistics().entries, 0U);
  EXPECT_EQ(none.statistics().traces, 5U);
  const auto fine = none.try_call(Values(5, 1));
  ASSERT_TRUE(fine) << text(fine.status);
  EXPECT_EQ(fine.results->num_elements(), 5);
}

// Invalid options are refused at construction; the error names the executor
TEST_P(ExecutorsTest, MistakesInOptionsAreNamed) {
  const auto why = [&](ExecutorOptions options) {
    return refusal(ErrorCode::invalid_argument,
                   [&] { static_cast<void>(plus_one(std::move(options))); });
  };
  EXPECT_THAT(why({.name = "inc", .cache_max = 0}),
              AllOf(HasSubstr("executor 'inc'"), HasSubstr("executors_fixture.hpp"),
                    HasSubstr("cache_max is 0 (expected 1 or more")));
  EXPECT_THAT(why({.compile = {.name = "other"}}), HasSubstr("options.compile has a name"));
  EXPECT_THAT(why({.compile = {.trace_values = true}}), HasSubstr("trace_values"));
}

// A double takes the width of the floats beside it, as in graphs; other values keep their width
TEST_P(ExecutorsTest, DoublesHaveTheWidthOfWhatTheyMeet) {
  const Executor add = adder();
  EXPECT_EQ(add(row({1}), 0.5).values<float>()[0], 1.5F);
  EXPECT_EQ(add(Array(device, HostArray::range({f16, {1}})), 0.5).dtype(), f32);
  EXPECT_EQ(add(Array(device, {1.0}), 0.5).dtype(), f64);
  EXPECT_EQ(add(Array(device, {1}), 0.5).dtype(), f64);
  EXPECT_EQ(add(0.5, 0.5).dtype(), f64);
  EXPECT_EQ(add(0.5F, 0.5).dtype(), f32);
  EXPECT_EQ(add.compile(ArrayType{f32, {1}}, 0.5)(row({1}), 2.5).item<float>(), 3.5F);
  EXPECT_THAT(refusal(ErrorCode::invalid_argument, [&] { add(row({1}), 1e300); }),
              HasSubstr("the number 1e+300, which is too large for f32"));
}

// Executors without a name are named after the line of construction, or "executor" where no line of
// the program constructed them
TEST_P(ExecutorsTest, HaveNamesOfTheirMakers) {
  using Function = Node (*)(Node);
  const Function same = +[](Node x) { return x; };
  EXPECT_THAT(Executor(device, same).name(), StartsWith("executors_test.cpp:"));
  EXPECT_EQ(std::make_unique<Executor<Function>>(device, same)->name(), "executor");
  EXPECT_THAT(
      failure([&] { call_once(device, [](Node x) { return reshape(x, {7}); }, 1.0F); }).to_string(),
      HasSubstr("function 'executors_test.cpp:"));
}

// Graphs are numbered in the order of their traces, and returned with a call
TEST_P(ExecutorsTest, TellTheirGraphs) {
  const Executor inc = plus_one();
  inc(row({1}));
  const auto [y, graph] = inc.traced(row({1, 2}));
  EXPECT_THAT(y.values<float>(), ElementsAre(2, 3));
  EXPECT_EQ(graph.traced.name(), "inc#1");
  EXPECT_THAT(graph.traced.graph().to_string(), HasSubstr("f32[2]"));
  EXPECT_THAT(graph.code.loop_text(), HasSubstr("f32[2]"));
  EXPECT_GT(graph.trace_time.count(), 0);
  EXPECT_GT(graph.compile_time.count(), 0);
  const std::vector<ExecutorGraph> graphs = inc.graphs();
  ASSERT_EQ(graphs.size(), 2U);
  EXPECT_EQ(graphs[0].traced.name(), "inc#0");
  EXPECT_EQ(inc.traced(row({7})).graph.traced.name(), "inc#0");
}

// One compile serves every device of a backend; arguments may be on any device
TEST_P(ExecutorsTest, WorkOnOtherDevices) {
  const Executor add = adder();
  const Device other = another();
  const Backend sync = Backend::open("sync_cc");
  const Device foreign = sync.physical_device(0).new_virtual_device();
  const Array here = row({1, 2}), there(foreign, Values{10, 20});
  const Array a = add.on(other)(here, here), b = add(here, there), c = add.on(foreign)(here, there);
  EXPECT_EQ(a.device(), other);
  EXPECT_EQ(b.device(), device);
  EXPECT_EQ(c.device(), foreign);
  EXPECT_THAT(a.values<float>(), ElementsAre(2, 4));
  EXPECT_THAT(b.values<float>(), ElementsAre(11, 22));
  EXPECT_THAT(c.values<float>(), ElementsAre(11, 22));
  EXPECT_EQ(add.statistics().traces, 2U);
  const Executor strict = adder({.name = "strict", .other_devices = OtherDevices::refuse});
  if (const auto tried = strict.try_call(here, there)) {
    EXPECT_THAT(tried.results->values<float>(), ElementsAre(11, 22));
    EXPECT_EQ(add.statistics().copies, 0U);
  } else {
    EXPECT_FALSE(is_cpu_row(GetParam()));
    EXPECT_THAT(text(tried.status),
                HasSubstr("argument 1 of 2, 'arg1' f32[2] lies in memory of " + foreign.name()));
    EXPECT_EQ(add.statistics().copies, 2U);
  }
  EXPECT_THAT(add(here, donate(there)).values<float>(), ElementsAre(11, 22));
  EXPECT_FALSE(there.live());
  other.finalize();
  EXPECT_THAT(refusal(ErrorCode::failed_precondition, [&] { add.on(other)(donate(here), 1.0F); }),
              AllOf(HasSubstr(other.name()), HasSubstr("finalised")));
  EXPECT_THAT(refusal(ErrorCode::failed_precondition,
                      [&] { static_cast<void>(add.on(other).compile(here, 1.0F)); }),
              AllOf(HasSubstr(other.name()), HasSubstr("finalised")));
  EXPECT_TRUE(here.live());
}

// Any thread may call, and gets the results of its own calls
TEST_P(ExecutorsTest, ServeSecondThreads) {
  const Executor add = adder();
  const Array base = row({1});
  in_threads(4, [&](int t) {
    Array state = row({0});
    for (int k = 0; k < 50; ++k)
      state = k % 2 == 0 ? add(donate(state), static_cast<float>(t)) : add(state, base);
    EXPECT_THAT(state.values<float>(), ElementsAre(static_cast<float>(25 * t + 25)));
  });
  EXPECT_EQ(add.statistics().traces, 2U);
  EXPECT_EQ(add.statistics().calls, 200U);
}

}  // namespace
}  // namespace heddle
