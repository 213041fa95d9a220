// Sorting in graphs, against std::sort of places, equal elements by place.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "support/random_program.hpp"
#include "support/seeds.hpp"
#include "unit/graph/graph_calls.hpp"

namespace heddle::jit::testing {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::Ge;
using ::testing::HasSubstr;
using ::testing::Le;
using Doubles = std::vector<double>;
using Places = std::vector<std::int64_t>;

constexpr double nan = std::numeric_limits<double>::quiet_NaN();
constexpr double inf = std::numeric_limits<double>::infinity();

/// Of one array, by dtype and shape; few different values where `few`.
HostArray order_argument(const ArrayType& type, std::uint64_t seed, bool few) {
  HostArray array = random_array(type, seed);
  if (!few) return array;
  const Doubles values{2, -0.0, 0, -3, nan, 1, inf, -inf};
  for (std::int64_t k = 0; k < array.num_elements(); ++k) {
    const double value = values[(static_cast<std::uint64_t>(k) * 2654435761U + seed) % 67 % 8];
    array.set(k, is_floating(type.dtype) || std::isfinite(value) ? value : 0);
  }
  return array;
}

/// Exact, also where a double is not: elements by what they are.
template <class T>
bool comes_before(const HostArray& array, std::int64_t a, std::int64_t b) {
  const T x = array.values<T>()[static_cast<std::size_t>(a)];
  const T y = array.values<T>()[static_cast<std::size_t>(b)];
  return x < y;
}
bool comes_before(const HostArray& array, std::int64_t a, std::int64_t b) {
  switch (array.type().dtype) {
    case i64:
      return comes_before<std::int64_t>(array, a, b);
    case u64:
      return comes_before<std::uint64_t>(array, a, b);
    default:
      break;
  }
  const double x = array.at(a);
  const double y = array.at(b);
  return x < y || (std::isnan(y) && !std::isnan(x));
}

/// The places along `axis` in order, by the plainest means.
std::vector<std::int64_t> reference_places(const std::vector<HostArray>& keys, std::size_t axis,
                                           bool descending) {
  const Dims& dims = keys[0].type().dims;
  std::int64_t inner = 1;
  for (std::size_t k = axis + 1; k < dims.size(); ++k) inner *= dims[k];
  const std::int64_t count = dims[axis];
  Places places(static_cast<std::size_t>(keys[0].num_elements()));
  for (std::int64_t row = 0; count > 0 && row < keys[0].num_elements() / count; ++row) {
    const std::int64_t first = row / inner * inner * count + row % inner;
    Places order(static_cast<std::size_t>(count));
    std::iota(order.begin(), order.end(), 0);
    std::ranges::sort(order, [&](std::int64_t a, std::int64_t b) {
      for (const HostArray& key : keys) {
        const std::int64_t at_a = first + a * inner;
        const std::int64_t at_b = first + b * inner;
        if (comes_before(key, at_a, at_b)) return !descending;
        if (comes_before(key, at_b, at_a)) return descending;
      }
      return a < b;
    });
    for (std::int64_t k = 0; k < count; ++k)
      places[static_cast<std::size_t>(first + k * inner)] = order[static_cast<std::size_t>(k)];
  }
  return places;
}

Places places_of(const HostArray& array) {
  const auto values = array.values<std::int64_t>();
  return {values.begin(), values.end()};
}
/// "-0", "nan": what tells elements apart.
std::vector<std::string> texts_of(const HostArray& array) {
  std::vector<std::string> texts;
  for (std::int64_t k = 0; k < array.num_elements(); ++k) {
    const double value = array.at(k);
    texts.push_back(std::isnan(value) ? "nan" : std::to_string(value));
  }
  return texts;
}

template <class Make>
std::vector<HostArray> results_of(const std::vector<HostArray>& arrays, const Make& make) {
  const Graph g("order");
  std::vector<Node> nodes;
  nodes.reserve(arrays.size());
  for (const HostArray& each : arrays) nodes.push_back(g.parameter("p", each.type()));
  g.finish(make(nodes));
  return run_graph(g, arrays);
}
HostArray floats(const std::vector<float>& values) {
  return HostArray::of<float>({static_cast<std::int64_t>(values.size())}, values);
}

void expect_ordered(const HostArray& x, std::int64_t axis, bool descending) {
  const Sort how{descending};
  const auto found = results_of({x}, [&](const std::vector<Node>& n) {
    return std::vector{argsort(n[0], axis, how), sort(n[0], axis, how)};
  });
  const Places wanted = reference_places({x}, static_cast<std::size_t>(axis), descending);
  ASSERT_EQ(places_of(found[0]), wanted) << x.to_string();
  // What is there is the element itself, -0 before 0.
  HostArray positive({u8, x.type().dims});
  for (std::int64_t k = 0; k < x.num_elements(); ++k)
    positive.set(k, x.at(k) == 0 && !std::signbit(x.at(k)) ? 1 : 0);
  const Places elements =
      reference_places({x, positive}, static_cast<std::size_t>(axis), descending);
  std::int64_t inner = 1;
  for (std::size_t k = static_cast<std::size_t>(axis) + 1; k < x.type().dims.size(); ++k)
    inner *= x.type().dims[k];
  const std::int64_t count = x.type().dims[static_cast<std::size_t>(axis)];
  std::vector<std::string> texts;
  const auto given = texts_of(x);
  for (std::int64_t k = 0; k < x.num_elements(); ++k) {
    const std::int64_t place = elements[static_cast<std::size_t>(k)];
    const std::int64_t first = k / (inner * count) * inner * count + k % inner;
    texts.push_back(given[static_cast<std::size_t>(first + place * inner)]);
  }
  ASSERT_EQ(texts_of(found[1]), texts);
}

// F3: every dtype, along every axis, both directions, short rows and long ones
TEST(GraphOrderTest, SortsAreStable) {
  std::uint64_t seed = 0;
  for (std::size_t type = 0; type < dtype_count; ++type) {
    const auto dtype = static_cast<DType>(type);
    for (const Dims& dims :
         {Dims{1}, Dims{7}, Dims{200}, Dims{3, 5, 2}, Dims{2, 130}, Dims{19, 9}, Dims{2, 131, 2}}) {
      for (std::int64_t axis = 0; axis < std::ssize(dims); ++axis) {
        ++seed;
        if (test::slower > 1 && seed % 5 < 3) continue;
        SCOPED_TRACE((ArrayType{dtype, dims}.to_string()) + " axis " + std::to_string(axis));
        expect_ordered(order_argument({dtype, dims}, seed, seed % 2 == 0), axis, seed % 3 == 0);
        if (HasFatalFailure()) return;
      }
    }
  }
}

// F3: digits of 11 bits, which long rows have; many rows, in blocks of several sizes
TEST(GraphOrderTest, SortsLongRows) {
  for (const DType dtype : {i8, f16, i64}) {
    if (test::slower > 1 && dtype != f16) continue;
    SCOPED_TRACE(std::string(name(dtype)));
    expect_ordered(order_argument({dtype, {4096}}, 3, false), 0, false);
    expect_ordered(order_argument({dtype, {4096}}, 4, true), 0, true);
    expect_ordered(order_argument({dtype, {9, 1100}}, 5, true), 1, true);
  }
}

// F3: NaN is behind all numbers, before them where they fall; zeros are equal
TEST(GraphOrderTest, NansZerosAndInfinities) {
  const HostArray x = floats({1, NAN, -0.0F, INFINITY, 0, -INFINITY, -NAN, -1, -0.0F});
  const auto found = results_of({x}, [](const std::vector<Node>& n) {
    return std::vector{argsort(n[0]), argsort(n[0], 0, {.descending = true}), sort(n[0])};
  });
  EXPECT_THAT(places_of(found[0]), ElementsAre(5, 7, 2, 4, 8, 0, 3, 1, 6));
  EXPECT_THAT(places_of(found[1]), ElementsAre(1, 6, 3, 0, 2, 4, 8, 7, 5));
  EXPECT_THAT(texts_of(found[2]), ElementsAre("-inf", "-1.000000", "-0.000000", "-0.000000",
                                              "0.000000", "1.000000", "inf", "nan", "nan"));
}

// F3: several operands move alike; the second key decides where the first is equal
TEST(GraphOrderTest, SortsSeveralOperands) {
  for (const std::int64_t count : {9, 150}) {
    for (const bool descending : {false, true}) {
      const std::vector<HostArray> operands{
          order_argument({f32, {2, count}}, 1, true), order_argument({i64, {2, count}}, 2, true),
          order_argument({u8, {2, count}}, 3, true), HostArray::range({i32, {2, count}})};
      for (std::int64_t keys = 1; keys <= 3; ++keys) {
        const auto found = results_of(
            operands, [&](const std::vector<Node>& n) { return sort(n, -1, keys, {descending}); });
        const Places order =
            reference_places({operands.begin(), operands.begin() + keys}, 1, descending);
        ASSERT_EQ(found.size(), operands.size());
        for (std::size_t n = 0; n < operands.size(); ++n) {
          const auto given = texts_of(operands[n]);
          std::vector<std::string> wanted;
          for (std::size_t k = 0; k < order.size(); ++k) {
            const auto row = k / static_cast<std::size_t>(count) * static_cast<std::size_t>(count);
            wanted.push_back(given[row + static_cast<std::size_t>(order[k])]);
          }
          EXPECT_EQ(texts_of(found[n]), wanted) << n << " of " << count << " by " << keys;
        }
      }
    }
  }
}

// F3: the k largest, and which they are; of equal ones the first; NaN is largest
TEST(GraphOrderTest, TopK) {
  const HostArray x = floats({3, NAN, 7, -0.0F, 7, 0, -INFINITY});
  const auto small = results_of({x}, [](const std::vector<Node>& n) {
    const TopK top = top_k(n[0], 6);
    return std::vector{top.values, top.indices};
  });
  EXPECT_THAT(texts_of(small[0]),
              ElementsAre("nan", "7.000000", "7.000000", "3.000000", "-0.000000", "0.000000"));
  EXPECT_THAT(places_of(small[1]), ElementsAre(1, 2, 4, 0, 3, 5));
  // Rows that are cut into blocks, once and more often, with elements left behind the last one.
  for (const DType dtype : {f32, bf16, u8}) {
    if (test::slower > 1 && dtype != bf16) continue;
    for (const Dims& dims : {Dims{2, 999}, Dims{1003, 2}, Dims{8011}}) {
      for (const std::int64_t k : {0, 5, 40}) {
        const std::int64_t axis = dims[0] == 1003 ? 0 : std::ssize(dims) - 1;
        SCOPED_TRACE((ArrayType{dtype, dims}.to_string()) + ", " + std::to_string(k));
        const HostArray rows = order_argument({dtype, dims}, 7, k == 5);
        const auto found = results_of({rows}, [&](const std::vector<Node>& n) {
          const TopK top = top_k(n[0], k, axis);
          return std::vector{top.indices, take_along_axis(n[0], top.indices, axis), top.values};
        });
        const Places all = reference_places({rows}, static_cast<std::size_t>(axis), true);
        Places wanted;
        if (axis == 0) {
          const std::int64_t inner = dims.size() > 1 ? 2 : 1;
          wanted.assign(all.begin(), all.begin() + k * inner);
        } else {
          for (std::int64_t row = 0; row < 2; ++row)
            wanted.insert(wanted.end(), all.begin() + row * dims[1],
                          all.begin() + row * dims[1] + k);
        }
        ASSERT_EQ(places_of(found[0]), wanted);
        ASSERT_EQ(texts_of(found[1]), texts_of(found[2]));
      }
    }
  }
}

// F3: how many are before, or not behind; NaN is behind all numbers
TEST(GraphOrderTest, SearchesSorted) {
  const auto found = [](const HostArray& sorted, const HostArray& values, Side side) {
    return places_of(results_of({sorted, values}, [&](const std::vector<Node>& n) {
      return std::vector{searchsorted(n[0], n[1], side)};
    })[0]);
  };
  const HostArray values = floats({0, 1, 1.5, 4, 9, -INFINITY, INFINITY, NAN, -0.0F});
  const HostArray few = floats({-0.0F, 1, 1, 4, INFINITY, NAN, NAN});
  EXPECT_THAT(found(few, values, Side::left), ElementsAre(0, 1, 3, 3, 4, 0, 4, 5, 0));
  EXPECT_THAT(found(few, values, Side::right), ElementsAre(1, 3, 3, 4, 4, 0, 5, 7, 1));
  // Many values, which are sorted among what they are searched in.
  for (const DType dtype : {f32, i32}) {
    const HostArray few_values =
        results_of({order_argument({dtype, {300}}, 1, true)},
                   [](const auto& n) { return std::vector{sort(n[0])}; })[0];
    const HostArray many = order_argument({dtype, {3, 100}}, 2, true);
    Doubles all;
    for (const HostArray& each : {few_values, many}) {
      for (std::int64_t k = 0; k < 300; ++k) all.push_back(each.at(k));
    }
    const HostArray both = HostArray::fill({dtype, {600}}, all);
    Places left, right;
    for (std::int64_t k = 300; k < 600; ++k) {
      std::int64_t before = 0, not_behind = 0;
      for (std::int64_t n = 0; n < 300; ++n) {
        before += comes_before(both, n, k) ? 1 : 0;
        not_behind += comes_before(both, k, n) ? 0 : 1;
      }
      left.push_back(before);
      right.push_back(not_behind);
    }
    EXPECT_EQ(found(few_values, many, Side::left), left);
    EXPECT_EQ(found(few_values, many, Side::right), right);
  }
  const HostArray ints = HostArray::of<std::int32_t>({2, 3}, std::vector{-1, 0, 1, 9, 10, 11});
  for (std::int64_t count = 0; count <= 17; ++count) {
    const HostArray sorted = HostArray::range({i16, {count}});
    Places left, right;
    for (const std::int64_t value : {-1, 0, 1, 9, 10, 11}) {
      left.push_back(std::clamp<std::int64_t>(value, 0, count));
      right.push_back(std::clamp<std::int64_t>(value + 1, 0, count));
    }
    EXPECT_EQ(found(sorted, ints, Side::left), left) << count;
    EXPECT_EQ(found(sorted, ints, Side::right), right) << count;
  }
}

// F3: searched in what is not sorted, a value has a place there is, whichever
TEST(GraphOrderTest, SearchesWhatIsNotSorted) {
  for (const std::int64_t extent : {1, 5, 100}) {
    const HostArray mixed = order_argument({f32, {extent}}, 1, true);
    const HostArray values = order_argument({f32, {300}}, 2, true);
    const auto found = results_of({mixed, values}, [](const std::vector<Node>& n) {
      return std::vector{searchsorted(n[0], n[1])};
    });
    EXPECT_THAT(places_of(found[0]), Each(AllOf(Ge(0), Le(extent))));
  }
}

// F3, D10: each place once, in an order that the key decides
TEST(GraphOrderTest, Permutations) {
  const Graph g("permutation");
  const Node key = g.constant(std::uint64_t{42}, u64);
  g.finish({permutation(key, 100), permutation(fold_in(key, 1), 100), permutation(key, 0)});
  const auto found = run_graph(g, {});
  const Places first = places_of(found[0]), second = places_of(found[1]);
  for (const Places& each : {first, second}) {
    EXPECT_EQ(std::set(each.begin(), each.end()).size(), 100u);
    EXPECT_EQ(*std::ranges::max_element(each), 99);
    EXPECT_EQ(*std::ranges::min_element(each), 0);
    EXPECT_FALSE(std::ranges::is_sorted(each));
  }
  EXPECT_NE(first, second);
  EXPECT_EQ(found[2].num_elements(), 0);
}

// F3, D3: rows without elements, and no rows
TEST(GraphOrderTest, EmptyArrays) {
  const auto found =
      results_of({HostArray({f32, {0, 3}}), HostArray({f32, {0}})}, [](const std::vector<Node>& n) {
        const TopK top = top_k(n[0], 2);
        return std::vector{sort(n[0]),  sort(n[0], 0), argsort(n[0]),
                           top.indices, top.values,    searchsorted(n[1], n[1])};
      });
  for (const HostArray& each : found) EXPECT_EQ(each.num_elements(), 0);
  EXPECT_EQ(found[3].type().dims, (Dims{0, 2}));
}

// F2: what does not fit is named, with what was expected
TEST(GraphOrderTest, MistakesAreNamed) {
  const auto sorted = [](const Graph&, const Node& x) { return sort(x, 2); };
  EXPECT_THAT(refused(sorted), HasSubstr("'sort' of %0 'x' f32[4,3] (graph_order_test.cpp:"));
  EXPECT_THAT(refused(sorted), HasSubstr("(expected -2 to 1)"));
  EXPECT_THAT(refused([](const Graph&, const Node& x) { return argsort(sum(x)); }),
              HasSubstr("'argsort'"));
  EXPECT_THAT(refused([](const Graph&, const Node& x) { return top_k(x, 4).values; }),
              HasSubstr("4 of the 3 elements along axis 1 (expected 0 to 3)"));
  EXPECT_THAT(refused([](const Graph&, const Node& x) { return top_k(x, -1, 0).values; }),
              HasSubstr("-1 of the 4 elements along axis 0 (expected 0 to 4)"));
  EXPECT_THAT(refused([](const Graph&, const Node& x) { return sort({x, transpose(x)}, 0)[0]; }),
              HasSubstr("operands have one shape; broadcast_to() gives it"));
  EXPECT_THAT(refused([](const Graph&, const Node& x) { return sort({x, x}, 0, 3)[0]; }),
              HasSubstr("by the first 3 of 2 operands (expected 1 to 2)"));
  EXPECT_THAT(refused([](const Graph&, const Node&) { return sort(std::vector<Node>())[0]; }),
              HasSubstr("there are no operands"));
  EXPECT_THAT(refused([](const Graph&, const Node& x) { return searchsorted(x, x); }),
              HasSubstr("what is searched has one axis"));
  EXPECT_THAT(refused([](const Graph& g, const Node&) {
                return searchsorted(g.parameter("u", {u64, {2}}), g.parameter("i", {i32, {2}}));
              }),
              HasSubstr("they have no common type; convert one with cast(x, dtype)"));
  EXPECT_THAT(refused([](const Graph&, const Node& x) { return permutation(x, 3); }),
              HasSubstr("a key is u64[]"));
  EXPECT_THAT(refused([](const Graph& g, const Node&) {
                return permutation(g.constant(std::uint64_t{1}, u64), -1);
              }),
              HasSubstr("of -1 places (expected 0 or more)"));
  EXPECT_THAT(refused([](const Graph&, const Node& x) {
                const Graph other("other");
                return sort({x, other.parameter("y", {f32, {4, 3}})})[0];
              }),
              HasSubstr("other"));
  const auto text = [](const std::string& keys) {
    return "heddle-graph 1\nv0 = parameter f32[2]\nv1 = parameter u8[3]\nv2 = parameter u8[2]\n"
           "v3 = order(" +
           keys + ") axis=[0] i32[2]\nresults v3\n";
  };
  const auto parsed = [&](const std::string& keys) {
    try {
      return Graph::parse(text(keys)).to_string();
    } catch (const Error& e) {
      return std::string(e.status().message());
    }
  };
  const auto sorted_text = [](const std::string& type) {
    try {
      return Graph::parse("heddle-graph 1\nv0 = parameter " + type + "\nv1 = sorted(v0) " + type +
                          "\nresults v1\n")
          .to_string();
    } catch (const Error& e) {
      return std::string(e.status().message());
    }
  };
  EXPECT_THAT(parsed("v0"), HasSubstr("its key is f32[2] (expected unsigned integers or bool)"));
  EXPECT_THAT(sorted_text("f32[2,8]"), HasSubstr("it sorts f32 (expected u32 or u64)"));
  EXPECT_THAT(sorted_text("u32[]"), HasSubstr("there is no axis to sort along"));
  EXPECT_THAT(parsed("v2, v1"), HasSubstr("its keys have shapes u8[2] and u8[3] (expected one)"));
}

// F1, F3: places have 32 bits where these do
TEST(GraphOrderTest, LongRowsHaveWidePlaces) {
  const auto text = [](const std::string& extent, const std::string& type) {
    return "heddle-graph 1\nv0 = parameter u8[" + extent + "]\nv1 = order(v0) axis=[0] " + type +
           "[" + extent + "]\nresults v1\n";
  };
  EXPECT_EQ(Graph::parse(text("2147483647", "i32")).results()[0].dtype(), i32);
  EXPECT_EQ(Graph::parse(text("2147483648", "i64")).results()[0].dtype(), i64);
  EXPECT_THROW(static_cast<void>(Graph::parse(text("2147483648", "i32"))), Error);
}

}  // namespace
}  // namespace heddle::jit::testing
