// Operations at the edge of what they take: integers in layers, places outside, empty arrays,
// numbers that are none of a type; and what is refused there.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "unit/graph/graph_calls.hpp"

namespace heddle::jit::testing {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
constexpr std::int64_t lowest = std::numeric_limits<std::int64_t>::min();
constexpr std::int64_t highest = std::numeric_limits<std::int64_t>::max();

// F3: layers take integers as f32, of any width, signed or not
TEST(GraphEdgesTest, LayersTakeIntegersAsFloats) {
  const auto same = [](const std::vector<Given>& given, const auto& make) {
    std::vector<Given> floats = given;
    for (Given& each : floats) each.type.dtype = f32;
    EXPECT_THAT(result_of(given, make), ElementsAreArray(result_of(floats, make)))
        << name(given[0].type.dtype);
  };
  const auto one = [](Node layer(const Node&, CallSite)) {
    return [layer](const Nodes& n) { return layer(n[0], CallSite::current()); };
  };
  for (const DType dtype : {u8, u16, u32, u64, i16, i64}) {
    const Given row{{dtype, {1, 3}}, {1, 2, 100}};
    same({row}, [](const Nodes& n) { return softmax(n[0]); });
    same({row}, [](const Nodes& n) { return log_softmax(n[0]); });
    same({row}, one(sigmoid));
    same({row}, one(silu));
    same({row}, one(gelu));
    same({row}, [](const Nodes& n) { return rms_norm(n[0], n[0]); });
    same({row}, [](const Nodes& n) { return layer_norm(n[0], n[0], n[0]); });
    same({row}, [](const Nodes& n) {
      return cross_entropy(n[0], reshape(cast(slice(n[0], {{0, 1}, {0, 1}}), i64), {1}));
    });
  }
  same({{{i8, {2}}, {100, -100}}}, [](const Nodes& n) { return softmax(n[0]); });
  same({{{i16, {2}}, {300, 300}}}, [](const Nodes& n) { return rms_norm(n[0], n[0]); });
  same({{{i8, {1, 2}}, {100, 100}}, {{i8, {2, 2}}, {1, 1, 0, 0}}, {{i8, {2, 1}}, {1, 2}}},
       [](const Nodes& n) { return attention(n[0], n[1], n[2]); });
}

// F2, F3: einsum sums and multiplies in the type of all operands, whatever their order is
TEST(GraphEdgesTest, EinsumJoinsTypesFirst) {
  const Given narrow{{i8, {1}}, {100}}, wide{{i64, {1}}, {1}};
  const auto product = [](const Nodes& n) { return einsum("i,i,i->", n); };
  EXPECT_THAT(result_of({narrow, narrow, wide}, product), ElementsAre(10000));
  EXPECT_THAT(result_of({wide, narrow, narrow}, product), ElementsAre(10000));
  EXPECT_THAT(
      result_of({{{i8, {2}}, {100, 100}}, wide}, [](const Nodes& n) { return einsum("i,j->", n); }),
      ElementsAre(200));
  const Graph g("types");
  const Nodes mixed{g.parameter("a", {i64, {1}}), g.parameter("b", {u64, {1}}),
                    g.parameter("c", {f32, {1}})};
  EXPECT_EQ(einsum("i,i,i->", mixed).dtype(), f32) << "as with the floats first";
}

// F3: diagonals far beyond the corners; 16-bit floats keep their type
TEST(GraphEdgesTest, Triangles) {
  const Given ones{{f16, {2, 3}}, {1, 1, 1, 1, 1, 1}};
  for (const std::int64_t far : {std::int64_t{3}, std::int64_t{1} << 40, highest}) {
    EXPECT_THAT(result_of({ones}, [&](const Nodes& n) { return tril(n[0], far); }), Each(1));
    EXPECT_THAT(result_of({ones}, [&](const Nodes& n) { return triu(n[0], far); }), Each(0));
  }
  for (const std::int64_t far : {std::int64_t{-2}, lowest}) {
    EXPECT_THAT(result_of({ones}, [&](const Nodes& n) { return tril(n[0], far); }), Each(0));
    EXPECT_THAT(result_of({ones}, [&](const Nodes& n) { return triu(n[0], far); }), Each(1));
  }
  EXPECT_EQ(made_of({ones}, [](const Nodes& n) { return tril(n[0]); }).type().dtype, f16);
}

// F3: a label outside counts as the nearest class
TEST(GraphEdgesTest, LabelsOutsideAreTheNearest) {
  const Given logits{{f32, {2, 3}}, {1, 2, 3, 1, 2, 3}};
  const auto loss = [](const Nodes& n) { return cross_entropy(n[0], n[1]); };
  for (const DType dtype : {i8, i64}) {
    EXPECT_THAT(result_of({logits, {{dtype, {2}}, {-1, 7}}}, loss),
                ElementsAreArray(result_of({logits, {{dtype, {2}}, {0, 2}}}, loss)));
  }
  EXPECT_THAT(result_of({logits, {{u64, {2}}, {0x1p63, 1}}}, loss),
              ElementsAreArray(result_of({logits, {{u64, {2}}, {2, 1}}}, loss)));
}

// F3: zeros of padding take part in convolutions
TEST(GraphEdgesTest, PaddingMeetsInfiniteWeights) {
  const std::vector<double> found =
      result_of({{{f32, {1, 1, 2}}, {1, 1}}, {{f32, {1, 1, 2}}, {HUGE_VAL, 1}}},
                [](const Nodes& n) { return conv_transposed(n[0], n[1], {.step = {2}}); });
  ASSERT_EQ(found.size(), 4U);
  EXPECT_EQ(found[0], HUGE_VAL);
  EXPECT_TRUE(std::isnan(found[1]));
}

// F3: of nothing nothing is taken, wherever that would be
TEST(GraphEdgesTest, EmptyIndices) {
  const Given nothing{{f32, {0, 2}}, {}}, none{{i64, {0}}, {}};
  EXPECT_THAT(result_of({nothing, none}, [](const Nodes& n) { return take(n[0], n[1]); }),
              IsEmpty());
  EXPECT_THAT(result_of({nothing, none}, [](const Nodes& n) { return gather(n[0], {n[1]}); }),
              IsEmpty());
  EXPECT_THAT(
      result_of({nothing, none}, [](const Nodes& n) { return scatter(n[0], {n[1]}, n[0]); }),
      IsEmpty());
  EXPECT_THAT(refused([](const Graph& g, const Node&) {
                return take(g.parameter("e", {f32, {0}}), g.parameter("i", {i32, {1}}));
              }),
              HasSubstr("axis 0 of f32[0] has no element to choose"));
}

// F3: a window over one axis leaves the others alone, also those without elements
TEST(GraphEdgesTest, WindowsOverRowsOfNone) {
  const Graph g("windows");
  const Node rows = g.parameter("x", {f32, {0, 4}});
  EXPECT_EQ(window_sum(rows, {.size = {2}}).dims(), Dims({0, 2}));
  EXPECT_EQ(window_maximum(rows, {.size = {2}, .step = {1}}).dims(), Dims({0, 3}));
  EXPECT_EQ(window_minimum(rows, {.size = {1, 4}}).dims(), Dims({0, 1}));
  EXPECT_THAT(refused([](const Graph& other, const Node&) {
                return window_sum(other.parameter("e", {f32, {0, 4}}), {.size = {2, 2}});
              }),
              HasSubstr("the window of axis 0 spans 2 elements, and there are 0"));
}

// F3: no term has the logarithm of 0
TEST(GraphEdgesTest, LogarithmOfNoTerms) {
  const Given nothing{{f32, {0, 2}}, {}};
  EXPECT_THAT(result_of({nothing}, [](const Nodes& n) { return logsumexp(n[0], {0}); }),
              ElementsAre(-HUGE_VAL, -HUGE_VAL));
  EXPECT_THAT(result_of({nothing}, [](const Nodes& n) { return logsumexp(n[0]); }),
              ElementsAre(-HUGE_VAL));
}

// F3: where no axis is a part of another, one copy lies between; readers find their places in it
TEST(GraphEdgesTest, ReshapesThatDoNotNestCopyOnce) {
  const auto statements = [](const std::function<Node(const Node&)>& make) {
    const Graph g("reshaped");
    g.finish({make(g.parameter("x", {f32, {6, 4}}))});
    const std::string text = g.program().program.to_string();
    return std::ranges::count(text, '=');
  };
  EXPECT_EQ(statements([](const Node& x) { return x * 2; }), 1);
  EXPECT_EQ(statements([](const Node& x) { return reshape(x, {3, 2, 4}) * 2; }), 1);
  EXPECT_EQ(statements([](const Node& x) { return reshape(x, {4, 6}) * 2; }), 2);
  EXPECT_EQ(statements([](const Node& x) { return reshape(reshape(x, {4, 6}) * 2, {6, 4}); }), 3);
  std::vector<double> counted(24);
  std::iota(counted.begin(), counted.end(), 0);
  const Given x{{f32, {6, 4}}, counted};
  EXPECT_THAT(
      result_of({x},
                [](const Nodes& n) { return reverse(transpose(reshape(n[0], {4, 6})), {0}) + 0; }),
      ElementsAre(5, 11, 17, 23, 4, 10, 16, 22, 3, 9, 15, 21, 2, 8, 14, 20, 1, 7, 13, 19, 0, 6, 12,
                  18));
}

// F3: element 63107 of the bits of key 17 begins with 24 ones, where noise would be largest
TEST(GraphEdgesTest, ImpossibleClassesAreNotDrawn) {
  constexpr std::int64_t count = 1 << 16, top = 63107;
  const Graph g("draw");
  const Node key = g.constant(std::uint64_t{17}, u64);
  const Node place = g.iota({i64, {count}}, 0);
  g.finish({random_bits(key, {count}),
            categorical(key, cast(select(place == 5, 0, -HUGE_VAL), f32)),
            categorical(key, cast(select(place == top, -80, 0), f32))});
  const auto found = run_graph(g, {});
  EXPECT_EQ(found[0].values<std::uint64_t>()[top] >> 40U, 0xffffffU);
  EXPECT_EQ(found[1].at(0), 5);
  EXPECT_NE(found[2].at(0), top);
}

// F1: a graph that was moved from is the same graph
TEST(GraphEdgesTest, NoGraphIsEmpty) {
  Graph g("moved");
  const Graph other = std::move(g);
  EXPECT_EQ(g.name(), "moved");  // NOLINT: that is what is tested
  static_cast<void>(g.parameter("x", {f32, {}}));
  EXPECT_EQ(other.parameters().size(), 1U);
}

// J3: any operand of clamp() may be the node
TEST(GraphEdgesTest, ClampOfNumbersAndANode) {
  const Given x{{f32, {3}}, {-1, 0.75, 2}};
  EXPECT_THAT(result_of({x}, [](const Nodes& n) { return clamp(0.5, n[0], 1.0); }),
              ElementsAre(0.5, 0.75, 2));
  EXPECT_THAT(result_of({x}, [](const Nodes& n) { return clamp(3, n[0], 1); }),
              ElementsAre(1, 1, 2));
  EXPECT_THAT(result_of({x}, [](const Nodes& n) { return clamp(0.5, 0, n[0]); }),
              ElementsAre(0, 0.5, 0.5));
}

// F2: numbers that a type would make infinite
TEST(GraphEdgesTest, NumbersThatAreTooLarge) {
  const auto too_large = [](const auto& make) {
    EXPECT_THAT(refused(make), HasSubstr("which would make it infinite"));
  };
  too_large([](const Graph& g, const Node&) { return g.constant(1e39, f32); });
  too_large([](const Graph& g, const Node&) { return g.constant(70000.0, f16); });
  too_large([](const Graph&, const Node& x) { return pad(cast(x, f16), 1e6, {{1, 1}, {0, 0}}); });
  const Graph g("large");
  EXPECT_NO_THROW(static_cast<void>(g.constant(HUGE_VAL, f16)));
  EXPECT_NO_THROW(static_cast<void>(g.constant(65504.0, f16)));
}

// F2: arrays without elements may have any other extents, wherever the 0 is
TEST(GraphEdgesTest, EmptyShapesOfAnyOrder) {
  const std::int64_t large = std::int64_t{1} << 40;
  EXPECT_EQ((ArrayType{f32, {large, large, 0}}).num_bytes(), 0);
  EXPECT_EQ((ArrayType{f32, {0, large, large}}).num_bytes(), 0);
  EXPECT_EQ((ArrayType{f32, {large, large, -1}}).num_bytes(), std::nullopt);
  EXPECT_EQ((ArrayType{f32, {large, large, 1}}).num_bytes(), std::nullopt);
  const Graph g("empty");
  EXPECT_EQ(transpose(g.parameter("p", {f32, {0, large, large}})).dims(), Dims({large, large, 0}));
}

// F2: what would change values without a word is refused
TEST(GraphEdgesTest, ValuesThatWouldChangeAreRefused) {
  const auto of_ints = [](const auto& make) {
    return refused(
        [&](const Graph& g, const Node& x) { return make(g.parameter("i", {i32, {4}}), x); });
  };
  EXPECT_THAT(of_ints([](const Node& i, const Node&) { return pad(i, 1.5, {{1, 0}}); }),
              HasSubstr("the number 1.5 is none of i32"));
  EXPECT_THAT(of_ints([](const Node& i, const Node&) { return pad(i, NAN, {{1, 0}}); }),
              HasSubstr("is none of i32"));
  EXPECT_THAT(
      of_ints([](const Node& i, const Node&) { return dynamic_slice(i, {Operand(0.5)}, {1}); }),
      AllOf(HasSubstr("'dynamic_slice' of %1 'i' i32[4]"),
            HasSubstr("the number 0.5 is none of i64")));
  for (const double beyond : {300.0, -129.0, HUGE_VAL}) {
    EXPECT_THAT(
        of_ints([&](const Node& i, const Node&) { return pad(cast(i, i8), beyond, {{1, 0}}); }),
        HasSubstr("is none of i8"));
  }
  const auto updated = [](DType wide) {
    return refused([&](const Graph& g, const Node& x) {
      return dynamic_update_slice(x, g.parameter("u", {wide, {1, 1}}), {0, 0});
    });
  };
  for (const DType wide : {i32, u32, i64, f64})
    EXPECT_THAT(updated(wide), HasSubstr("f32 does not hold all values of")) << name(wide);
  for (const DType narrow : {i16, u16, f16, bool_}) EXPECT_EQ(updated(narrow), "accepted");
  EXPECT_THAT(of_ints([](const Node& i, const Node& x) {
                return scatter(i, {i}, reshape(slice(x, {{0, 2}, {0, 2}}), {4}));
              }),
              HasSubstr("i32 does not hold all values of f32; convert one with cast()"));
  EXPECT_THAT(
      of_ints([](const Node& i, const Node&) { return dynamic_update_slice(cast(i, u8), i, {0}); }),
      HasSubstr("u8 does not hold all values of i32"));
  EXPECT_THAT(refused([](const Graph& g, const Node&) {
                return fold_in(g.constant(std::uint64_t{1}, u64), 1.25);
              }),
              AllOf(HasSubstr("'fold_in' of"), HasSubstr("the number 1.25 is none of u64")));
  EXPECT_THAT(refused([](const Graph& g, const Node& x) {
                return fold_in(g.constant(std::uint64_t{1}, u64), sum(x));
              }),
              HasSubstr("keys are made of integers"));
}

// F2: layers name what does not go with what
TEST(GraphEdgesTest, LayersNameWhatDoesNotFit) {
  EXPECT_THAT(refused([](const Graph&, const Node& x) {
                return attention(x, x, x, {}, matmul(x, transpose(x)));
              }),
              HasSubstr("a mask is bool"));
  EXPECT_THAT(refused([](const Graph& g, const Node& x) {
                return cross_entropy(x, g.parameter("labels", {i32, {4, 1}}));
              }),
              HasSubstr("labels are integers [4], one for each row of logits"));
  EXPECT_THAT(refused([](const Graph&, const Node& x) { return cross_entropy(x, sum(x, {1})); }),
              HasSubstr("labels are integers [4]"));
  EXPECT_THAT(refused([](const Graph& g, const Node& x) {
                return layer_norm(x, g.parameter("scale", {f32, {5, 4, 3}}), x);
              }),
              HasSubstr("f32[5,4,3] does not broadcast to f32[4,3]"));
  EXPECT_THAT(refused([](const Graph& g, const Node& x) {
                return rms_norm(x, g.parameter("scale", {f32, {4}}));
              }),
              HasSubstr("'rms_norm' of"));
}

// F2: numbers that no array could have, and words that are none
TEST(GraphEdgesTest, NumbersBeyondAllArrays) {
  const auto images = [](const Graph& g) { return g.parameter("images", {f32, {1, 1, 2}}); };
  EXPECT_THAT(refused([](const Graph& g, const Node&) {
                return random_bits(g.constant(std::uint64_t{1}, u64),
                                   {std::int64_t{1} << 40, std::int64_t{1} << 40});
              }),
              HasSubstr("'random_bits' of"));
  EXPECT_THAT(refused([](const Graph&, const Node& x) { return pad(x, 0, {{0, 0, highest}}); }),
              HasSubstr("an extent of its result passes 2^63 - 1"));
  EXPECT_THAT(refused([](const Graph&, const Node& x) { return pad(x, 0, {{lowest, 0}}); }),
              HasSubstr("9223372036854775807 elements are to go of axis 0, which has 4"));
  for (const std::int64_t step : {highest, std::int64_t{0}}) {
    EXPECT_THAT(refused([&](const Graph& g, const Node&) {
                  return conv_transposed(images(g), images(g), {.step = {step}});
                }),
                HasSubstr("axis 0 of space has step " + std::to_string(step)));
  }
  EXPECT_THAT(refused([](const Graph& g, const Node&) { return g.iota({f32, {}}, 0); }),
              HasSubstr("axis 0 of f32[], a scalar, which has none"));
  EXPECT_THAT(refused([](const Graph& g, const Node& x) {
                const Node i = g.parameter("i", {i32, {4}});
                return scatter(x, {i}, x, static_cast<Scatter>(77));
              }),
              HasSubstr("how is 77 (expected a value of Scatter)"));
  EXPECT_THAT(refused([](const Graph&, const Node& x) {
                return searchsorted(sum(x, {0}), x, static_cast<Side>(9));
              }),
              HasSubstr("the side is 9 (expected a value of Side)"));
}

// F1: names that are none, and texts
TEST(GraphEdgesTest, NamesAndTexts) {
  EXPECT_THAT(refused([](const Graph&, const Node& x) {
                static_cast<void>(Graph(""));
                return x;
              }),
              HasSubstr("a graph has no name; give it one"));
  const Graph g("names");
  {
    const auto outer = g.scope("outer");
    const auto none = g.scope("");
    EXPECT_EQ((g.parameter("unused", {f32, {}}) + 1).scope(), "outer");
  }
  g.finish({g.parameter("", {f32, {2}}) + 1});
  const std::string text = g.to_string();
  EXPECT_EQ(Graph::parse(text).to_string(), text);
  EXPECT_THAT(text, HasSubstr("# arg1"));
  EXPECT_THROW(static_cast<void>(Graph::parse(text, "")), Error);
  const auto told = [](const std::string& body) {
    try {
      return Graph::parse("heddle-graph 1\nv0 = parameter f32[2]\n" + body).to_string();
    } catch (const Error& e) {
      return std::string(e.status().message());
    }
  };
  EXPECT_THAT(told("results v9\n"), HasSubstr("line 3 column 9"));
  EXPECT_THAT(told("v1 = constant 3:i8 f32[]\nresults v1\n"), HasSubstr("line 3 column"));
  EXPECT_THAT(told("v1 = element.add(v0, v2) f32[2]\nresults v1\n"), HasSubstr("line 3 column 22"));
  EXPECT_THAT(told("v1 = cumulate.add(v0) axis=[0] reverse=[2] f32[2]\nresults v1\n"),
              HasSubstr("reverse is 2 (expected 0 or 1)"));
}

}  // namespace
}  // namespace heddle::jit::testing
