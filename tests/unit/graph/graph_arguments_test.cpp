// What operations are given besides nodes: numbers, types, options, names; and scopes. What is
// taken at the edge, and how the rest is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "heddle/trace.hpp"
#include "heddle/tree.hpp"
#include "jit/graph/state.hpp"
#include "unit/graph/graph_calls.hpp"

namespace heddle::jit::testing {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr double no_number = std::numeric_limits<double>::quiet_NaN();

// J3: a bool is 0 or 1, a float the nearest there is
TEST(GraphArgumentsTest, Constants) {
  const auto bool_of = [](double number) {
    return refused([=](const Graph& g, const Node&) { return g.constant(number, bool_); });
  };
  EXPECT_EQ(bool_of(0), "accepted");
  EXPECT_EQ(bool_of(1), "accepted");
  EXPECT_THAT(bool_of(2), AllOf(HasSubstr("'constant': the number 2"), HasSubstr("none of bool")));
  EXPECT_THAT(bool_of(0.5), HasSubstr("none of bool"));
  EXPECT_THAT(bool_of(no_number), HasSubstr("none of bool"));
  for (const bool given : {false, true}) {
    for (const DType dtype : {bool_, i32, u8, f16, f32}) {
      EXPECT_EQ(refused([=](const Graph& g, const Node&) { return g.constant(given, dtype); }),
                "accepted");
      EXPECT_EQ(refused([=](const Graph& g, const Node&) {
                  return g.constant(static_cast<int>(given), dtype);
                }),
                "accepted");
    }
  }
  // 2^64 and 2^63, which conversions would end one below
  EXPECT_THAT(refused([](const Graph& g, const Node&) { return g.constant(0x1p64, u64); }),
              HasSubstr("none of u64"));
  EXPECT_THAT(refused([](const Graph& g, const Node&) { return g.constant(0x1p63, i64); }),
              HasSubstr("none of i64"));
  EXPECT_EQ(refused([](const Graph& g, const Node&) { return g.constant(-0x1p63, i64); }),
            "accepted");
  EXPECT_THAT(refused([](const Graph&, const Node& x) { return x + 1e300; }),
              HasSubstr("'add' of %0 'x' f32[4,3]"));
  EXPECT_EQ(refused([](const Graph&, const Node& x) { return x + HUGE_VAL; }), "accepted");
  EXPECT_THAT(refused([](const Graph& g, const Node&) { return g.constant(2, bool_); }),
              HasSubstr("none of bool"));
  EXPECT_THAT(
      result_of({{{f32, {}}, {0}}},
                [](const Nodes& n) { return n[0] + graph_with(n[0]).constant(16777217, f32); }),
      ElementsAre(16777216));
}

// F2: what is no type is refused where it is given, by the operation, and with what it was for
TEST(GraphArgumentsTest, TypesThatAreNone) {
  const auto none = static_cast<DType>(99);
  for (const auto& text : {
           refused([&](const Graph&, const Node& x) { return cast(x, none); }),
           refused([&](const Graph&, const Node& x) { return bitcast(x, none); }),
           refused([&](const Graph&, const Node& x) { return one_hot(cast(x, i32), 3, none); }),
       }) {
    EXPECT_THAT(text, AllOf(HasSubstr("32[4,3]"), HasSubstr("99 is no dtype (expected one of "),
                            HasSubstr(", at graph_arguments_test.cpp:")));
  }
  EXPECT_THAT(refused([&](const Graph& g, const Node&) { return g.constant(1, none); }),
              AllOf(HasSubstr("'constant': 99 is no dtype"), HasSubstr(", at ")));
  EXPECT_THAT(refused([&](const Graph& g, const Node&) { return g.iota({none, {3}}); }),
              HasSubstr("99 is no dtype"));
}

// F2: a refused parameter is named, and leaves no name behind
TEST(GraphArgumentsTest, Parameters) {
  const auto told = [](const ArrayType& type) {
    return refused([&](const Graph& g, const Node&) { return g.parameter("weights", type); });
  };
  EXPECT_THAT(told({f32, {3, -1}}),
              AllOf(HasSubstr("'parameter weights'"), HasSubstr("axis 1 has -1 elements")));
  EXPECT_THAT(told({static_cast<DType>(99), {3}}), HasSubstr("99 is no dtype"));
  EXPECT_THAT(told({f32, {3}, static_cast<Layout>(3)}), HasSubstr("its layout is 3"));
  const Graph g("one");
  EXPECT_THROW(static_cast<void>(g.parameter("bad", {f32, {-1}})), Error);
  g.finish({g.parameter("good", {f32, {1}})});
  EXPECT_THAT(g.parameters()[0].to_string(), HasSubstr("'good'"));
}

Status status_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.status();
  }
  return {};
}

// F2: errors that no operand could place have the line of the call
TEST(GraphArgumentsTest, CallsHaveTheirLines) {
  const auto told = [](const std::function<void()>& call) {
    return std::string(status_of(call).message());
  };
  const Graph g("g");
  const Node x = g.parameter("x", {f32, {1}});
  g.finish({x});
  EXPECT_THAT(told([] { static_cast<void>(Graph("")); }), HasSubstr("at graph_arguments_test.cpp"));
  EXPECT_THAT(told([] {
                static_cast<void>(trace("", [](const Node& n) { return n; }, ArrayType{f32, {1}}));
              }),
              HasSubstr("at graph_arguments_test.cpp"));
  EXPECT_THAT(told([&] { static_cast<void>(Graph::parse(g.to_string(), "")); }),
              HasSubstr("at graph_arguments_test.cpp"));
  EXPECT_THAT(told([] { static_cast<void>(Node().log("late")); }),
              HasSubstr("at graph_arguments_test.cpp"));
  EXPECT_THAT(told([&] { static_cast<void>(x.log("late")); }),
              AllOf(HasSubstr("finished"), HasSubstr("at graph_arguments_test.cpp")));
}

// F2, F1: what comes too late is named by the operation that was called, not by what it is made of
TEST(GraphArgumentsTest, OperationsOnFinishedGraphsAreNamed) {
  const Graph g("g");
  const Node x = g.parameter("x", {f32, {4}});
  g.finish({x});
  const auto told = [](const std::function<void()>& call) {
    const Status status = status_of(call);
    EXPECT_EQ(status.code(), ErrorCode::failed_precondition);
    return std::string(status.message());
  };
  EXPECT_THAT(
      told([&] { static_cast<void>(sum(x)); }),
      AllOf(HasSubstr("graph 'g' is finished"), HasSubstr("'sum' of %0 'x' f32[4]"),
            HasSubstr("make them before finish()"), HasSubstr(", at graph_arguments_test.cpp")));
  EXPECT_THAT(told([&] { static_cast<void>(top_k(x, 2)); }), HasSubstr("'top_k' of %0 'x'"));
  EXPECT_THAT(told([&] { static_cast<void>(x + 1); }), HasSubstr("'add' of %0 'x'"));
  EXPECT_THAT(told([&] { static_cast<void>(g.constant(1)); }), HasSubstr("'constant'"));
}

// F2: operations that take axes have none of a scalar
TEST(GraphArgumentsTest, ScalarsHaveNoAxes) {
  const std::pair<const char*, std::function<Node(const Node&)>> operations[] = {
      {"concatenate", [](const Node& x) { return concatenate({x, x}); }},
      {"split", [](const Node& x) { return split(x, 1)[0]; }},
      {"matmul", [](const Node& x) { return matmul(x, x); }},
      {"take_along_axis", [](const Node& x) { return take_along_axis(x, cast(x, i32)); }},
      {"scatter", [](const Node& x) { return scatter(x, {cast(x, i32)}, x); }},
      {"top_k", [](const Node& x) { return top_k(x, 1).values; }},
      {"layer_norm", [](const Node& x) { return layer_norm(x, x, x); }},
      {"rms_norm", [](const Node& x) { return rms_norm(x, x); }},
      {"attention", [](const Node& x) { return attention(x, x, x); }},
  };
  for (const auto& [name, make] : operations) {
    EXPECT_THAT(refused([&](const Graph& g, const Node&) {
                  return make(g.parameter("scalar", {f32, {}}));
                }),
                AllOf(HasSubstr("'" + std::string(name) + "' of "), HasSubstr("'scalar' f32[]")));
  }
  EXPECT_THAT(refused([](const Graph&, const Node& x) {
                const Node none = slice(x, 0, {0, 0});
                return attention(x, none, none);
              }),
              HasSubstr("'attention' of "));
}

// F2: chances, rates and scales that no number fits
TEST(GraphArgumentsTest, NumbersOfLayersAndChances) {
  const auto key = [](const Graph& g) { return g.constant(7, u64); };
  for (const double chance : {-0.1, 2.0, no_number}) {
    EXPECT_THAT(
        refused([&](const Graph& g, const Node&) { return bernoulli(key(g), chance, {2}); }),
        HasSubstr("(expected 0 to 1)"));
  }
  EXPECT_EQ(refused([&](const Graph& g, const Node&) { return bernoulli(key(g), 1, {2}); }),
            "accepted");
  for (const double rate : {-0.1, 1.0, no_number}) {
    EXPECT_THAT(refused([&](const Graph& g, const Node& x) { return dropout(x, key(g), rate); }),
                HasSubstr("the rate is "));
  }
  for (const double epsilon : {-1e-5, no_number, HUGE_VAL}) {
    EXPECT_THAT(refused([&](const Graph&, const Node& x) { return rms_norm(x, x, epsilon); }),
                HasSubstr("epsilon is "));
    EXPECT_THAT(refused([&](const Graph&, const Node& x) { return layer_norm(x, x, x, epsilon); }),
                HasSubstr("epsilon is "));
  }
  EXPECT_THAT(refused([&](const Graph&, const Node& x) {
                return attention(x, x, x, {.scale = no_number});
              }),
              HasSubstr("the scale is nan"));
}

// F2: data of keys is taken modulo 2^64, whether it is a number or a node
TEST(GraphArgumentsTest, KeysTakeNegativeNumbers) {
  const std::vector<Given> key{{{u64, {}}, {7}}, {{i32, {}}, {-1}}};
  const auto of_number = result_of(key, [](const Nodes& n) { return fold_in(n[0], -1); });
  const auto of_node = result_of(key, [](const Nodes& n) { return fold_in(n[0], n[1]); });
  const auto of_all_bits =
      result_of(key, [](const Nodes& n) { return fold_in(n[0], ~std::uint64_t{0}); });
  EXPECT_EQ(of_number, of_node);
  EXPECT_EQ(of_number, of_all_bits);
  EXPECT_NE(of_number, result_of(key, [](const Nodes& n) { return fold_in(n[0], 1); }));
}

// F2, J13: an axis of nothing has no place that an update could go to
TEST(GraphArgumentsTest, UpdatesOfEmptyAxesAreLeftOut) {
  EXPECT_THAT(
      result_of({{{f32, {0, 2}}, {}}, {{i32, {3}}, {0, 1, 2}}, {{f32, {3, 2}}, {1, 2, 3, 4, 5, 6}}},
                [](const Nodes& n) { return scatter(n[0], {n[1]}, n[2], Scatter::add); }),
      IsEmpty());
}

// F2: conv_transposed() has the extents of its formula at small and no images, and is itself what
// refuses
TEST(GraphArgumentsTest, ExtentsOfTransposedConvolutions) {
  const auto dims = [](std::int64_t n, std::int64_t size, const ConvOptions& options) {
    const Graph g("g");
    const Node x = g.parameter("x", {f32, {1, 1, n}}), w = g.parameter("w", {f32, {1, 1, size}});
    return conv_transposed(x, w, options).dims()[2];
  };
  for (std::int64_t n = 0; n < 4; ++n) {
    for (std::int64_t size = 1; size < 4; ++size) {
      for (std::int64_t step = 1; step < 4; ++step) {
        for (std::int64_t low = -1; low < 3; ++low) {
          const ConvOptions options{.step = {step}, .padding = {{low, 1}}, .dilation = {2}};
          const std::int64_t spread = n == 0 ? 0 : (n - 1) * step + 1;
          const std::int64_t places = spread + 2 * (size - 1) - low - 1;
          if (places >= (size == 1 ? 0 : 1)) {
            EXPECT_EQ(dims(n, size, options), places);
          } else {
            EXPECT_THROW(static_cast<void>(dims(n, size, options)), Error);
          }
        }
      }
    }
  }
  const std::string told = refused([](const Graph& g, const Node&) {
    const Node x = g.parameter("x", {f32, {1, 1, 1}}), w = g.parameter("w", {f32, {1, 1, 3}});
    return conv_transposed(x, w, {.padding = {{2, 2}}});
  });
  EXPECT_THAT(told, AllOf(HasSubstr("'conv_transposed' of "), HasSubstr("leaves -1 places")));
  EXPECT_THAT(told, Not(HasSubstr("'conv'")));
  EXPECT_THAT(refused([](const Graph& g, const Node&) {
                const Node x = g.parameter("x", {f32, {2, 4, 7}});
                return conv_transposed(x, g.parameter("w", {f32, {6, 2, 3}}), {.groups = 2});
              }),
              HasSubstr("axis 1 of the first has 4 elements"));
  EXPECT_THAT(refused([](const Graph& g, const Node&) {
                const Node x = g.parameter("x", {f32, {1, 0, 1}});
                const Node w = g.parameter("w", {f32, {0, 1, std::int64_t{1} << 40U}});
                return conv_transposed(x, w, {.dilation = {1 << 30}});
              }),
              HasSubstr("'conv_transposed' of "));
}

// F2: scalars have no space that windows or filters could go over
TEST(GraphArgumentsTest, ConvolutionsHaveAxesOfSpace) {
  const auto scalar = [](const Node& x) { return sum(x); };
  EXPECT_THAT(refused([&](const Graph&, const Node& x) { return conv(scalar(x), scalar(x)); }),
              HasSubstr("have 3 to 5 axes"));
  EXPECT_THAT(
      refused([&](const Graph&, const Node& x) { return conv_transposed(scalar(x), scalar(x)); }),
      HasSubstr("have 3 to 5 axes"));
  const Window window{.size = {2}};
  EXPECT_THAT(refused([&](const Graph&, const Node& x) { return window_sum(scalar(x), window); }),
              HasSubstr("'window_sum' of "));
  EXPECT_THAT(
      refused([&](const Graph&, const Node& x) { return window_maximum(scalar(x), window); }),
      HasSubstr("'window_maximum' of "));
  EXPECT_THAT(
      refused([&](const Graph&, const Node& x) { return window_minimum(scalar(x), window); }),
      HasSubstr("'window_minimum' of "));
}

// F2: what einsum() does not know, it says
TEST(GraphArgumentsTest, EinsumSaysWhatItDoesNotKnow) {
  const auto told = [](const char* spec) {
    return refused([=](const Graph&, const Node& x) { return einsum(spec, {x}); });
  };
  EXPECT_THAT(told("...j->..."), HasSubstr("'...' is not known here"));
  EXPECT_THAT(told("i1->i"), HasSubstr("'1' is no letter"));
  for (const char* const spec : {"ij>i", "ij-->i", "ij-i", "ij->i->i"})
    EXPECT_THAT(told(spec), HasSubstr("apart by one '->'"));
  EXPECT_EQ(told(" i j -> j i "), "accepted");
}

// F2: a scope ends when it is destroyed, whatever order that happens in
TEST(GraphArgumentsTest, ScopesEndInAnyOrder) {
  const Graph g("g");
  std::optional<Graph::Scope> outer, inner;
  outer.emplace(g, "outer");
  inner.emplace(g, "inner");
  EXPECT_EQ(g.parameter("a", {f32, {1}}).scope(), "outer/inner");
  outer.reset();
  EXPECT_EQ(g.parameter("b", {f32, {2}}).scope(), "outer/inner");
  inner.reset();
  EXPECT_EQ(g.parameter("c", {f32, {3}}).scope(), "");
}

// F1: leaves may be bool, in whatever holds them
TEST(GraphArgumentsTest, TreesOfBools) {
  const auto [def, leaves] = flatten<bool>(std::array{true, false});
  EXPECT_THAT(leaves, ElementsAre(true, false));
  EXPECT_EQ((unflatten<std::array<bool, 2>, bool>(def, leaves)), (std::array{true, false}));
}

}  // namespace
}  // namespace heddle::jit::testing
