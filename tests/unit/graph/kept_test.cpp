// What graphs keep in memory: sums that lose their schedule where they are read, and what users ask
// for.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "heddle/graph_ops.hpp"
#include "heddle/status.hpp"
#include "jit/loop/text.hpp"
#include "jit/schedule/schedule.hpp"
#include "run_graph.hpp"
#include "tests/support/failure.hpp"

namespace heddle::jit::testing {
namespace {

using ::testing::HasSubstr;

std::string loops_of(const Graph& g) {
  const Target target{Isa::avx512, 48 << 10, 2 << 20, 32 << 20};
  return print(schedule(optimize(lower(g.program().program)), target).loop);
}
int count(const std::string& text, const std::string& part) {
  int found = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

struct Followed {
  const char* name;
  int products;
  /// Of f32[64,64] twice, and f32[64,64,32].
  std::function<Node(const Node& x, const Node& w, const Node& z)> make;
};

// J9: a product is tiled whatever reads it
TEST(KeptTest, ProductsAreTiledWhateverReadsThem) {
  const auto product = [](const Node& x, const Node& w) { return matmul(x, w); };
  const std::vector<Followed> all{
      {"elements", 1, [=](auto& x, auto& w, auto&) { return relu(product(x, w)) * w; }},
      {"two products", 2, [=](auto& x, auto& w, auto&) { return product(x, w) + product(w, x); }},
      {"three products", 3,
       [=](auto& x, auto& w, auto&) {
         return tanh(product(x, w) + product(w, x)) * product(x, x);
       }},
      {"halves", 1,
       [=](auto& x, auto& w, auto&) {
         const auto halves = split(product(x, w), 2, 1);
         return halves[0] * halves[1];
       }},
      {"rows", 1, [=](auto& x, auto& w, auto&) { return maximum(product(x, w), {1}); }},
      {"columns", 1, [=](auto& x, auto& w, auto&) { return mean(product(x, w), {0}); }},
      {"all", 1, [=](auto& x, auto& w, auto&) { return mean(abs(product(x, w) - w)); }},
      {"windows", 1,
       [=](auto& x, auto& w, auto&) { return window_maximum(product(x, w), {.size = {2, 2}}); }},
      {"product", 2, [=](auto& x, auto& w, auto&) { return product(relu(product(x, w)), w); }},
      {"before rows", 1, [=](auto& x, auto& w, auto& z) { return product(x, w) + sum(z, {2}); }},
      {"after rows", 1, [=](auto& x, auto& w, auto& z) { return sum(z, {2}) + product(x, w); }},
      {"a part", 1, [=](auto& x, auto& w, auto&) { return slice(product(x, w), {{8, 40}}) + 1; }},
      {"an operand", 1,
       [=](auto& x, auto&, auto&) {
         const Node y = relu(x);
         return tanh(y - 0.5 * product(y, y));
       }},
      {"a value twice", 1,
       [=](auto& x, auto& w, auto&) {
         const Node half = 0.5 * w;
         return product(w, transpose(x)) - 0.5 * (x - half - half);
       }},
  };
  for (const Followed& each : all) {
    const Graph g(each.name);
    const Node x = g.parameter("x", {f32, {64, 64}}), w = g.parameter("w", {f32, {64, 64}}),
               z = g.parameter("z", {f32, {64, 64, 32}});
    g.finish({each.make(x, w, z)});
    const std::string loops = loops_of(g);
    EXPECT_EQ(count(loops, "# contraction"), each.products) << each.name << '\n' << loops;
  }
}

// J9: a transpose after a product has a loop of its own
TEST(KeptTest, TransposesAfterProductsStandAlone) {
  const Graph g("turned");
  const Node x = g.parameter("x", {f32, {64, 64}}), w = g.parameter("w", {f32, {64, 64}});
  g.finish({tanh(matmul(x, w) + transpose(w))});
  EXPECT_THAT(loops_of(g), HasSubstr("# contraction"));
  EXPECT_THAT(loops_of(g), HasSubstr("# transpose"));
  const Graph result("result");
  const Node y = result.parameter("y", {f32, {64, 64}}), z = result.parameter("z", {f32, {64, 64}});
  result.finish({transpose(matmul(y, z)) + 1});
  EXPECT_THAT(loops_of(result), Not(HasSubstr("scratch f32[64,64]")));
}

// J9: what follows a product element by element stays in the product's registers
TEST(KeptTest, ElementsFollowProductsInRegisters) {
  const Graph g("layer");
  const Node x = g.parameter("x", {f32, {64, 64}}), w = g.parameter("w", {f32, {64, 64}});
  g.finish({relu(matmul(x, w) + 1) * w});
  EXPECT_THAT(loops_of(g), Not(HasSubstr("scratch")));
}

// J4: sums of rows are vector code wherever they stand: they are not stored
TEST(KeptTest, SumsOfRowsAreNotStored) {
  const Graph g("rows");
  const Node x = g.parameter("x", {f32, {64, 64}}), y = g.parameter("y", {f32, {64, 64}});
  g.finish({sum(sum(x, {1}) + maximum(y, {1}))});
  EXPECT_THAT(loops_of(g), Not(HasSubstr("scratch")));
}

// J9: a product of a matrix and its transpose is read along memory before rows of it are summed
TEST(KeptTest, TransposesAreStoredBeforeSums) {
  const Graph mixed("mixed"), turned("turned");
  const Node x = mixed.parameter("x", {f32, {64, 64}}), y = mixed.parameter("y", {f32, {64, 64}});
  mixed.finish({sum(x * transpose(y), 1)});
  const std::string loops = loops_of(mixed);
  EXPECT_THAT(loops, HasSubstr("scratch f32[64,64]")) << loops;
  EXPECT_THAT(loops, HasSubstr("# transpose"));
  const Graph twice("twice");  // the transpose is virtual, as both readers are
  const Node a = twice.parameter("a", {f32, {64, 64}}), b = twice.parameter("b", {f32, {64, 64}});
  const Node across = transpose(b * b);
  twice.finish({sum(a * across, 1), maximum(across, 0)});
  EXPECT_THAT(loops_of(twice), HasSubstr("# transpose"));
  const Node z = turned.parameter("z", {f32, {64, 64}});
  turned.finish({sum(transpose(z) * 2, 1)});
  EXPECT_THAT(loops_of(turned), Not(HasSubstr("scratch")));
}

// J9: elementwise readers of arrays in pieces, as of pad and concatenate, load no array in between
TEST(KeptTest, PiecesAreReadWhereTheyComeFrom) {
  const auto sides = [](const Node& p) {
    const auto part = [&](std::int64_t row, std::int64_t column) {
      return slice(p, {{row, row + 20}, {column, column + 24}});
    };
    return part(0, 1) + part(2, 1) + part(1, 0) * part(1, 2);
  };
  struct Case {
    const char* name;
    bool stored;
    std::function<Node(const Node&)> make;
  };
  const std::vector<Case> all{
      {"pad", false, [&](auto& x) { return sides(pad(x, 0.5, {{1, 1}, {1, 1}})); }},
      {"computed", false, [&](auto& x) { return pad(x * 2, 0.5, {{0, 0}, {3, 0}}) + 1; }},
      {"pad of pad", false,
       [&](auto& x) { return pad(pad(x, 1.0, {{1, 0}, {0, 0}}), 2.0, {{0, 1}, {0, 0}}) * 3; }},
      {"turn", false,
       [](auto& x) { return concatenate({slice(x, 1, {1, 24}), slice(x, 1, {0, 1})}, 1) - x; }},
      {"a cheap piece beside", false,
       [](auto& x) {
         const auto twice = [](const Node& y) {
           const auto halves = split(y, 2, 1);
           return concatenate({halves[1], halves[0] * halves[1]}, 1);
         };
         return twice(twice(x));
       }},
      {"sums of columns", false,
       [](auto& x) {
         const auto halves = split(x, 2, 1);
         const Node y = concatenate({halves[1], halves[0] * halves[1]}, 1);
         return sum(y * y, 0) / 20;
       }},
      {"a product", true, [](auto& x) { return matmul(concatenate({x, x * 2}, 0), transpose(x)); }},
      {"after a product", true,
       [](auto& x) {
         const auto halves = split(x, 2, 1);
         const Node y = concatenate({halves[1], halves[0] * halves[1]}, 1);
         return matmul(x, slice(transpose(x), {{0, 24}, {0, 20}})) + slice(y, 1, {0, 20});
       }},
      {"halves in turn", true,
       [](auto& x) {
         const Node column = slice(x, 1, {0, 1});
         return reshape(concatenate({column, column}, 1), {40}) * 2;
       }},
      {"sums", true, [](auto& x) { return sum(exp(pad(x, 0.0, {{1, 1}, {1, 1}})), 1); }},
      {"apart", true, [](auto& x) { return pad(x, 0.5, {{0, 0, 1}, {0, 0, 0}}) * 2; }},
      {"dear", true, [&](auto& x) { return sides(pad(exp(sin(x)), 0.5, {{1, 1}, {1, 1}})); }},
  };
  HostArray x(ArrayType{f32, {20, 24}});
  for (std::int64_t n = 0; n < x.num_elements(); ++n) x.set(n, static_cast<double>(n % 37) / 8);
  for (const Case& each : all) {
    const Graph g(each.name);
    g.finish({each.make(g.parameter("x", {f32, {20, 24}}))});
    const std::string loops = print(optimize(lower(g.program().program)).loop);
    EXPECT_EQ(loops.find("scratch") != std::string::npos, each.stored) << each.name << loops;
    EXPECT_TRUE(same_elements(run_graph(g, {x})[0], run_graph(g, {x}, false)[0]))
        << each.name << loops;
  }
}

// J9: loops over halves of rows, each of which reads both halves, are one
TEST(KeptTest, LoopsOverHalvesAreOne) {
  const auto twice = [](const Node& y) {
    const auto halves = split(y, 2, 1);
    return concatenate({halves[1], halves[0] * halves[1]}, 1);
  };
  const Graph g("halves");
  g.finish({twice(twice(twice(g.parameter("x", {f32, {64, 64}}))))});
  const std::string loops = loops_of(g);
  EXPECT_EQ(count(loops, "lanes i"), 1) << loops;
  HostArray x(ArrayType{f32, {64, 64}});
  for (std::int64_t n = 0; n < x.num_elements(); ++n) x.set(n, static_cast<double>(n % 37) / 8);
  EXPECT_TRUE(same_elements(run_graph(g, {x})[0], run_graph(g, {x}, false)[0]));
}

// J9: rows that are read at positions are vectors beside functions of their elements, and a row
// that others continue stays in a register
TEST(KeptTest, RowsAtPositionsAreVectors) {
  constexpr std::int64_t count = 8200;
  const auto cross = [](const Node& a, const Node& b) {
    const auto minor = [&](int i, int j) {
      return take(a, i, 1) * take(b, j, 1) - take(a, j, 1) * take(b, i, 1);
    };
    return stack({minor(1, 2), minor(2, 0), minor(0, 1)}, 1);
  };
  const Graph g("normals");
  const Node v = g.parameter("v", {f32, {50, 3}}), corners = g.parameter("f", {i32, {count, 3}});
  const auto corner = [&](int k) { return take(v, take(corners, k, 1)); };
  const Node first = corner(0), n = cross(corner(1) - first, corner(2) - first);
  g.finish({sqrt(sum(n * n, 1))});
  const std::string loops = loops_of(g);
  EXPECT_THAT(loops, HasSubstr("scratch f32[1,1]")) << "the first corner";
  EXPECT_THAT(loops, Not(HasSubstr("scratch f32[8200")));
  const std::size_t lanes = loops.rfind("lanes", loops.find("sqrt"));
  EXPECT_THAT(loops.substr(lanes, loops.find('\n', lanes) - lanes), HasSubstr("0..16"));
  HostArray points(ArrayType{f32, {50, 3}}), faces(ArrayType{i32, {count, 3}});
  for (std::int64_t k = 0; k < points.num_elements(); ++k)
    points.set(k, static_cast<double>(k * 37 % 101) / 8);
  for (std::int64_t k = 0; k < faces.num_elements(); ++k)
    faces.set(k, static_cast<double>(k * 31 % 53 - 1));
  EXPECT_TRUE(
      same_elements(run_graph(g, {points, faces})[0], run_graph(g, {points, faces}, false)[0]));
}

// J9: transposes among the loops of an array in pieces have nests of their own, and their schedule
TEST(KeptTest, TransposesOfPiecesStandAlone) {
  const Graph g("turned");
  const Node x = g.parameter("x", {f32, {64, 64}});
  const auto halves = split(transpose(x), 2, 1);
  g.finish({concatenate({halves[1], halves[0] * halves[1]}, 1) * (x + 1)});
  const std::string loops = loops_of(g);
  EXPECT_EQ(count(loops, "# transpose: blocks"), 2) << loops;
  HostArray values(ArrayType{f32, {64, 64}});
  for (std::int64_t n = 0; n < values.num_elements(); ++n)
    values.set(n, static_cast<double>(n % 97) - 50);
  EXPECT_TRUE(same_elements(run_graph(g, {values})[0], run_graph(g, {values}, false)[0]));
}

// J9: what follows a product and is long works on a copy of the sums, in a loop; what is short
// works in their registers
TEST(KeptTest, LongCodeAfterProductsIsALoop) {
  const auto loops = [](const auto& after) {
    const Graph g("after");
    const Node x = g.parameter("x", {f32, {64, 64}});
    g.finish({after(matmul(x, x))});
    return loops_of(g);
  };
  const std::string brief = loops([](const Node& y) { return relu(y) * 2; }),
                    lengthy = loops([](const Node& y) { return tanh(tanh(y)); });
  const auto loop_around = [](const std::string& text, const std::string& value) {
    const std::size_t lanes = text.rfind("lanes", text.find(value));
    return text.substr(text.rfind('\n', lanes - 1) - 60, 60);
  };
  EXPECT_THAT(loop_around(brief, "relu"), HasSubstr("unroll i"));
  EXPECT_THAT(loop_around(lengthy, "tanh"), HasSubstr("for i"));
}

// F3, J7: a long chain of short operations is one statement, whose values stay in registers
TEST(KeptTest, ShortOperationsGoThroughNoMemory) {
  const Graph g("orbit");
  const Node real = g.parameter("real", {f32, {1, 64}}),
             imaginary = g.parameter("i", {f32, {64, 1}});
  Node a = broadcast_to(g.constant(0.0F), {64, 64}), b = a, steps = a;
  for (int k = 0; k < 50; ++k) {
    steps += cast(a * a + b * b <= 4.0, f32);
    const Node next = a * a - b * b + real;
    b = 2.0 * a * b + imaginary;
    a = next;
  }
  g.finish({steps});
  EXPECT_EQ(count(loops_of(g), "scratch"), 0);
}

// J9: the place of an extreme is looked for only in blocks that have the extreme, NaN included
TEST(KeptTest, PlacesOfExtremesAreLookedForInTheirBlocks) {
  constexpr std::int64_t elements = 40'000;
  const Target target{Isa::avx512, 48 << 10, 2 << 20, 32 << 20};
  const Graph g("places"), chosen("chosen");
  const Node x = g.parameter("x", {f32, {elements}});
  g.finish({argmax(x, 0), argmin(x, 0)});
  EXPECT_EQ(count(loops_of(g), "in 0..1 = where"), 2);
  for (const std::int64_t place : {0, 8191, 8192, 20'000, 39'999}) {
    for (const double value : {100.0, -100.0, std::nan("")}) {
      HostArray values(ArrayType{f32, {elements}});
      for (std::int64_t n = 0; n < elements; ++n) values.set(n, static_cast<double>(n % 50));
      values.set(place, value);
      GraphRun run(g, {values}, true, &target);
      run.run();
      EXPECT_EQ(run.result(0).values<std::int64_t>()[0], value < 50 ? 49 : place) << value;
      EXPECT_EQ(run.result(1).values<std::int64_t>()[0], value > 0 ? (place == 0 ? 50 : 0) : place)
          << value;
    }
  }
  // Another value that may be less than a place decides: all elements are looked at.
  const Node y = chosen.parameter("y", {f32, {elements}});
  const Node place = chosen.iota({i64, {elements}}, 0);
  chosen.finish({minimum(where(y == maximum(y), place, 5))});
  EXPECT_EQ(count(loops_of(chosen), "in 0..1 = where"), 0);
}

// F7: keep() stores what would be computed where it is read, and is part of the text
TEST(KeptTest, UsersKeepNodes) {
  const auto make = [](bool kept) {
    Graph g("kept");
    const Node x = g.parameter("x", {f32, {64}});
    const Node y = exp(x);
    g.finish({(kept ? keep(y) : y) * 2});
    return g;
  };
  const Graph plain = make(false), kept = make(true);
  const auto loops = [](const Graph& g) {
    return print(optimize(lower(g.program().program)).loop);
  };
  EXPECT_THAT(loops(plain), Not(HasSubstr("scratch")));
  EXPECT_THAT(loops(kept), HasSubstr("scratch f32[64]"));
  EXPECT_THAT(kept.to_string(), HasSubstr("keep v1\n"));
  EXPECT_NE(plain.hash(), kept.hash());
  EXPECT_EQ(Graph::parse(kept.to_string()).to_string(), kept.to_string());
  const std::vector<HostArray> arguments{HostArray::uniform({f32, {64}}, 1)};
  const auto computed = run_graph(plain, arguments), stored = run_graph(kept, arguments);
  EXPECT_TRUE(std::ranges::equal(computed[0].values<float>(), stored[0].values<float>()));
  const Status late = failure([&] { keep(Graph(kept).parameter("late", {f32, {}})); });
  EXPECT_EQ(late.code(), ErrorCode::failed_precondition);
}

// F7: a kept result is a result, and a kept node that nothing needs is not computed
TEST(KeptTest, ResultsMayBeKept) {
  const Graph g("kept");
  const Node x = g.parameter("x", {f32, {2}});
  static_cast<void>(keep(exp(x)));
  g.finish({keep(x * 2), keep(x)});
  const auto found = run_graph(g, {HostArray::of<float>({2}, {3, -4})});
  EXPECT_EQ(found[0].values<float>()[1], -8);
  EXPECT_EQ(found[1].values<float>()[1], -4);
  EXPECT_EQ(count(g.to_string(), "keep"), 2);
  EXPECT_EQ(count(g.to_string(), "exp"), 0);
}

}  // namespace
}  // namespace heddle::jit::testing
