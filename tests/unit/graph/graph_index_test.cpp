// Operations of graphs at computed places, against plain loops.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "unit/graph/graph_calls.hpp"

namespace heddle::jit::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const Given table{{f32, {4, 3}}, {0, 1, 2, 10, 11, 12, 20, 21, 22, 30, 31, 32}};

// F3, J13: rows and columns by number; outside is the nearest, below 0 is 0
TEST(GraphIndexTest, Takes) {
  const Given rows{{i32, {2, 2}}, {3, 0, 9, -5}};
  EXPECT_THAT(result_of({table, rows}, [](const Nodes& n) { return take(n[0], n[1]); }),
              ElementsAre(30, 31, 32, 0, 1, 2, 30, 31, 32, 0, 1, 2));
  EXPECT_THAT(
      result_of({table, {{u8, {2}}, {2, 1}}}, [](const Nodes& n) { return take(n[0], n[1], -1); }),
      ElementsAre(2, 1, 12, 11, 22, 21, 32, 31));
  EXPECT_THAT(result_of({table, {{i64, {2}}, {1, 2}}, {{i64, {2}}, {0, 2}}},
                        [](const Nodes& n) { return gather(n[0], {n[1], n[2]}); }),
              ElementsAre(10, 22));
  EXPECT_THAT(result_of({table, {{i64, {4, 1}}, {2, 0, 1, 2}}},
                        [](const Nodes& n) { return take_along_axis(n[0], n[1]); }),
              ElementsAre(2, 10, 21, 32));
  EXPECT_THAT(result_of({table, {{i64, {1, 3}}, {3, 2, 1}}},
                        [](const Nodes& n) { return take_along_axis(n[0], n[1], 0); }),
              ElementsAre(30, 21, 12));
  EXPECT_THAT(
      result_of({table, {{i64, {0}}, {}}}, [](const Nodes& n) { return sum(take(n[0], n[1])); }),
      ElementsAre(0));
  // What is read there may be computed as well.
  EXPECT_THAT(result_of({table, {{i32, {2}}, {1, 2}}},
                        [](const Nodes& n) { return take(n[0] * 2, n[1] + 1) + 1; }),
              ElementsAre(41, 43, 45, 61, 63, 65));
}

// F3, J13: windows that do not fit are moved inside
TEST(GraphIndexTest, Windows) {
  const auto window = [](std::int64_t row, std::int64_t column) {
    return [=](const Nodes& n) { return dynamic_slice(n[0], {row, column}, {2, 2}); };
  };
  EXPECT_THAT(result_of({table}, window(1, 1)), ElementsAre(11, 12, 21, 22));
  EXPECT_THAT(result_of({table}, window(9, -3)), ElementsAre(20, 21, 30, 31));
  // The window decides, whatever of it is read.
  EXPECT_THAT(result_of({table},
                        [](const Nodes& n) {
                          return slice(dynamic_slice(n[0], {9, 0}, {3, 3}), {{0, 1}, {0, 1}});
                        }),
              ElementsAre(10));
  const Given step{{i32, {}}, {2}};
  EXPECT_THAT(result_of({table, step},
                        [](const Nodes& n) { return dynamic_slice(n[0], {n[1], 0}, {1, 3}); }),
              ElementsAre(20, 21, 22));
  const auto update = [](std::int64_t row) {
    return [=](const Nodes& n) { return dynamic_update_slice(n[0], n[1], {Operand(row), n[2]}); };
  };
  const Given pair{{f32, {1, 2}}, {7, 8}};
  for (const DType dtype : {i64, u64}) {
    EXPECT_THAT(result_of({table, pair, {{dtype, {}}, {1}}}, update(1)),
                ElementsAre(0, 1, 2, 10, 7, 8, 20, 21, 22, 30, 31, 32));
    EXPECT_THAT(result_of({table, pair, {{dtype, {}}, {0x1p62}}}, update(99)),
                ElementsAre(0, 1, 2, 10, 11, 12, 20, 21, 22, 30, 7, 8));
  }
  EXPECT_THAT(result_of({{{f32, {}}, {3}}, {{f32, {}}, {4}}},
                        [](const Nodes& n) { return dynamic_update_slice(n[0], n[1], {}); }),
              ElementsAre(4));
}

// F3, J13: in the order of the updates; places outside are left out
TEST(GraphIndexTest, Scatters) {
  const Given x{{f32, {4}}, {1, 2, 3, 4}}, places{{i32, {5}}, {2, 0, 2, -1, 4}},
      updates{{f32, {5}}, {10, 20, 30, 40, 50}};
  const auto how = [](Scatter each) {
    return [=](const Nodes& n) { return scatter(n[0], {n[1]}, n[2], each); };
  };
  EXPECT_THAT(result_of({x, places, updates}, how(Scatter::set)), ElementsAre(20, 2, 30, 4));
  EXPECT_THAT(result_of({x, places, updates}, how(Scatter::add)), ElementsAre(21, 2, 43, 4));
  EXPECT_THAT(result_of({x, places, updates}, how(Scatter::multiply)), ElementsAre(20, 2, 900, 4));
  EXPECT_THAT(result_of({x, places, updates}, how(Scatter::maximum)), ElementsAre(20, 2, 30, 4));
  EXPECT_THAT(result_of({x, places, updates}, how(Scatter::minimum)), ElementsAre(1, 2, 3, 4));
  // Sums have the order of the updates: 2^24 + 1 is 2^24 in f32.
  EXPECT_THAT(result_of({{{f32, {1}}, {0x1p24}}, {{i32, {3}}, {0, 0, 0}}, {{f32, {3}}, {1, 1, 2}}},
                        how(Scatter::add)),
              ElementsAre(0x1p24 + 2));
  const Given rows{{i32, {2}}, {3, 3}}, row{{f32, {2, 3}}, {1, 2, 3, 4, 5, 6}};
  EXPECT_THAT(result_of({table, rows, row}, how(Scatter::set)),
              ElementsAre(0, 1, 2, 10, 11, 12, 20, 21, 22, 4, 5, 6));
  EXPECT_THAT(result_of({table, {{i32, {0}}, {}}, {{f32, {0, 3}}, {}}}, how(Scatter::add)),
              ElementsAre(0, 1, 2, 10, 11, 12, 20, 21, 22, 30, 31, 32));
  // All updates to one place, which is known when the graph is built.
  EXPECT_THAT(result_of({x, updates},
                        [](const Nodes& n) {
                          const Node place = broadcast_to(sum(n[0], {0}) * 0, {5});
                          return scatter(n[0], {cast(place, i32)}, n[1], Scatter::set);
                        }),
              ElementsAre(50, 2, 3, 4));
}

// F2: what does not fit is named, with what was expected
TEST(GraphIndexTest, MistakesAreNamed) {
  const auto ints = [](const Graph& g, const Dims& dims) { return g.parameter("i", {i32, dims}); };
  EXPECT_THAT(refused([](const Graph&, const Node& x) { return take(x, x); }),
              HasSubstr("indices are integers; convert with cast(x, i64)"));
  EXPECT_THAT(refused([&](const Graph& g, const Node& x) { return take(x, ints(g, {2}), 2); }),
              HasSubstr("(expected -2 to 1)"));
  EXPECT_THAT(refused([&](const Graph& g, const Node& x) {
                return gather(x, {ints(g, {2}), ints(g, {3})});
              }),
              HasSubstr("the indices have one shape"));
  EXPECT_THAT(refused([&](const Graph& g, const Node& x) {
                return gather(x, {ints(g, {2}), ints(g, {2}), ints(g, {2})});
              }),
              HasSubstr("3 arrays of indices for 2 axes"));
  EXPECT_THAT(refused([](const Graph&, const Node& x) { return gather(x, {}); }),
              HasSubstr("there are no indices"));
  EXPECT_THAT(
      refused([&](const Graph& g, const Node& x) { return take_along_axis(x, ints(g, {2, 2})); }),
      HasSubstr("they differ in more than axis 1"));
  EXPECT_THAT(refused([](const Graph&, const Node& x) { return dynamic_slice(x, {0}, {1, 1}); }),
              HasSubstr("1 starts for 2 axes"));
  EXPECT_THAT(refused([](const Graph&, const Node& x) { return dynamic_slice(x, {0, 0}, {5, 1}); }),
              HasSubstr("5 elements of axis 0, which has 4"));
  EXPECT_THAT(refused([&](const Graph& g, const Node& x) {
                return dynamic_slice(x, {ints(g, {1}), 0}, {1, 1});
              }),
              HasSubstr("starts are scalars"));
  EXPECT_THAT(refused([](const Graph&, const Node& x) {
                return dynamic_update_slice(x, concatenate({x, x}), {0, 0});
              }),
              HasSubstr("the update has as many axes, and none longer"));
  EXPECT_THAT(refused([&](const Graph& g, const Node& x) {
                return scatter(x, {ints(g, {2})}, x, Scatter::add);
              }),
              HasSubstr("updates of this x at these indices are [2,3]"));
  EXPECT_THAT(refused([&](const Graph&, const Node& x) {
                const Graph other("other");
                return take(x, other.parameter("i", {i32, {1}}));
              }),
              HasSubstr("other"));
}

}  // namespace
}  // namespace heddle::jit::testing
