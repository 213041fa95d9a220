// What operations that are made of others give, against plain loops over doubles.
#include "heddle/graph_ops.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <set>
#include <source_location>
#include <vector>

#include "support/failure.hpp"
#include "unit/graph/run_graph.hpp"

namespace heddle {
namespace {

using jit::testing::run_graph;
using ::testing::AnyOf;
using ::testing::Each;
using ::testing::ElementsAre;
using Doubles = std::vector<double>;

constexpr double inf = std::numeric_limits<double>::infinity();
constexpr double nan = std::numeric_limits<double>::quiet_NaN();

Doubles values_of(const HostArray& array) {
  Doubles values;
  for (std::int64_t k = 0; k < array.num_elements(); ++k) values.push_back(array.at(k));
  return values;
}

/// What `make` gives of one f32 array.
Doubles of_one(const Dims& dims, const Doubles& x, const std::function<Node(const Node&)>& make) {
  const Graph g("one");
  const Node node = g.parameter("x", {f32, dims});
  g.finish({make(node)});
  return values_of(run_graph(g, {HostArray::fill({f32, dims}, x)})[0]);
}

/// What `make` gives of two.
Doubles of_two(const Dims& a, const Doubles& x, const Dims& b, const Doubles& y,
               const std::function<Node(const Node&, const Node&)>& make) {
  const Graph g("two");
  const Node left = g.parameter("a", {f32, a});
  const Node right = g.parameter("b", {f32, b});
  g.finish({make(left, right)});
  return values_of(run_graph(g, {HostArray::fill({f32, a}, x), HostArray::fill({f32, b}, y)})[0]);
}

Doubles some(std::size_t count) {
  Doubles values;
  for (std::size_t k = 0; k < count; ++k)
    values.push_back(std::sin(static_cast<double>(k * 7 + 3)));
  return values;
}

void expect_near(const Doubles& found, const Doubles& wanted, double error = 1e-5) {
  ASSERT_EQ(found.size(), wanted.size());
  for (std::size_t k = 0; k < wanted.size(); ++k) {
    if (std::isnan(wanted[k])) {
      EXPECT_TRUE(std::isnan(found[k])) << k;
    } else if (std::isinf(wanted[k])) {
      EXPECT_EQ(found[k], wanted[k]) << k;
    } else {
      EXPECT_NEAR(found[k], wanted[k], error * (1 + std::fabs(wanted[k]))) << k;
    }
  }
}

Doubles softmax_of(const Doubles& row) {
  const double largest = *std::ranges::max_element(row);
  Doubles result;
  for (const double x : row) result.push_back(std::exp(x - largest));
  const double total = std::accumulate(result.begin(), result.end(), 0.0);
  for (double& x : result) x /= total;
  return result;
}

// F3, J3: the bits of numbers
TEST(GraphOpsTest, Bitcasts) {
  const auto next = [](const Node& x) { return bitcast(bitcast(x, u32) + 1, f32); };
  EXPECT_EQ(of_one({2}, {1, -0.0}, next), (Doubles{1 + 0x1p-23, -0x1p-149}));
  const auto halves = [](const Node& x) {
    return cast(bitcast(bitcast(cast(x, f16), i16) + 1, f16), f32);
  };
  EXPECT_EQ(of_one({3}, {1, 65504, 0}, halves), (Doubles{1 + 0x1p-10, inf, 0x1p-24}));
  const Graph g("bits");
  const Node x = g.parameter("x", {f32, {2}});
  EXPECT_EQ(bitcast(x, f32).to_string(), x.to_string());
  try {
    bitcast(x, u16);
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::invalid_argument);
    EXPECT_THAT(e.status().message(), ::testing::HasSubstr("to u16: it has 2 bytes, not 4"));
  }
}

// F3: softmax and its logarithm by rows and by columns
TEST(GraphOpsTest, PowersByNumbers) {
  const Doubles x{0,
                  -0.0,
                  1,
                  2,
                  1e-12,
                  1e30,
                  0.3F,
                  -2,
                  inf,
                  -inf,
                  nan,
                  1e-42,
                  4.024427890777588F,
                  6.3224873542785645F,
                  6.3175435066223145F};
  for (const double exponent : {-1.0, -0.5, 0.5, 1.5, 2.0, 3.0}) {
    const Doubles found = of_one({15}, x, [&](const Node& n) { return pow(n, exponent); });
    for (std::size_t k = 0; k < x.size(); ++k) {
      const double wanted = std::pow(static_cast<double>(static_cast<float>(x[k])), exponent);
      const auto rounded = static_cast<double>(static_cast<float>(wanted));
      if (std::isnan(rounded)) {
        EXPECT_TRUE(std::isnan(found[k])) << x[k] << "^" << exponent;
      } else if (std::isinf(rounded) || rounded == 0) {
        EXPECT_EQ(found[k], rounded) << x[k] << "^" << exponent;
        EXPECT_EQ(std::signbit(found[k]), std::signbit(rounded)) << x[k] << "^" << exponent;
      } else {
        EXPECT_NEAR(found[k] / wanted, 1, 1.5 * 0x1p-23) << x[k] << "^" << exponent;
      }
    }
    const Graph g("text");
    g.finish({pow(g.parameter("x", {f32, {2}}), exponent)});
    EXPECT_EQ(g.to_string().find("pow"), std::string::npos) << exponent;
  }
}

TEST(GraphOpsTest, SoftmaxAndItsLogarithm) {
  const Doubles x = some(6);
  Doubles wanted = softmax_of({x[0], x[1], x[2]});
  const Doubles second = softmax_of({x[3], x[4], x[5]});
  wanted.insert(wanted.end(), second.begin(), second.end());
  expect_near(of_one({2, 3}, x, [](const Node& n) { return softmax(n); }), wanted);
  Doubles logarithms;
  for (const double p : wanted) logarithms.push_back(std::log(p));
  expect_near(of_one({2, 3}, x, [](const Node& n) { return log_softmax(n); }), logarithms);
  const Doubles column = softmax_of({x[0], x[3]});
  const Doubles found = of_one({2, 3}, x, [](const Node& n) { return softmax(n, 0); });
  expect_near({found[0], found[3]}, column);
}

// F3: mean, variance and the logarithm of a sum, also of what is infinite
TEST(GraphOpsTest, MomentsAndLogsumexp) {
  const Doubles x{1, 2, 4, -3, 0, 5};
  expect_near(of_one({2, 3}, x, [](const Node& n) { return mean(n, {1}); }), {7.0 / 3, 2.0 / 3});
  expect_near(of_one({2, 3}, x, [](const Node& n) { return variance(n, {1}); }),
              {14.0 / 9, 98.0 / 9});
  expect_near(of_one({2, 3}, x, [](const Node& n) { return logsumexp(n, {1}); }),
              {std::log(std::exp(1) + std::exp(2) + std::exp(4)),
               std::log(std::exp(-3) + 1 + std::exp(5))});
  expect_near(of_one({2, 2}, {1000, 1000, -inf, -inf},
                     [](const Node& n) { return logsumexp(n, {1}, {.keep = true}); }),
              {1000 + std::log(2), -inf});
  expect_near(of_one({2}, {inf, 0}, [](const Node& n) { return logsumexp(n); }), {inf});
}

// F3: the first of equal elements; a NaN is the largest and the smallest
TEST(GraphOpsTest, PlacesOfExtremes) {
  const auto largest = [](const Node& n) { return argmax(n); };
  const auto smallest = [](const Node& n) { return argmin(n, 1); };
  EXPECT_THAT(of_one({3, 3}, {1, 5, 5, nan, 2, nan, -inf, -inf, -inf}, largest),
              ElementsAre(1, 0, 0));
  EXPECT_THAT(of_one({3, 3}, {1, 5, 1, 3, nan, 1, inf, inf, inf}, smallest), ElementsAre(0, 1, 0));
}

// F3: running values in both directions, windows with steps and dilation
TEST(GraphOpsTest, RunningValuesAndWindows) {
  const Doubles x{1, 2, 3, 4};
  EXPECT_THAT(of_one({4}, x, [](const Node& n) { return cumsum(n); }), ElementsAre(1, 3, 6, 10));
  EXPECT_THAT(of_one({4}, x, [](const Node& n) { return cumprod(n, 0, {.reverse = true}); }),
              ElementsAre(24, 24, 12, 4));
  EXPECT_THAT(of_one({2, 2}, {3, 1, 2, 4}, [](const Node& n) { return cummax(n, 0); }),
              ElementsAre(3, 1, 3, 4));
  EXPECT_THAT(of_one({4}, x,
                     [](const Node& n) {
                       return window_sum(n, {.size = {2}, .step = {1}, .dilation = {2}});
                     }),
              ElementsAre(4, 6));
  EXPECT_THAT(of_one({1, 4}, x, [](const Node& n) { return window_maximum(n, {.size = {2}}); }),
              ElementsAre(2, 4));
}

// F3: layout: triangles, ranges as in Python, padding that takes away
TEST(GraphOpsTest, Layout) {
  const Doubles x{1, 2, 3, 4, 5, 6};
  EXPECT_THAT(of_one({2, 3}, x, [](const Node& n) { return tril(n); }),
              ElementsAre(1, 0, 0, 4, 5, 0));
  EXPECT_THAT(of_one({2, 3}, x, [](const Node& n) { return triu(n, 1); }),
              ElementsAre(0, 2, 3, 0, 0, 6));
  EXPECT_THAT(of_one({6}, x, [](const Node& n) { return slice(n, 0, {-4, Range::open, 2}); }),
              ElementsAre(3, 5));
  EXPECT_THAT(of_one({6}, x, [](const Node& n) { return slice(n, 0, {4, 1, -2}); }),
              ElementsAre(5, 3));
  EXPECT_THAT(of_one({6}, x, [](const Node& n) { return pad(n, 9, {{-4, 1, 0}}); }),
              ElementsAre(5, 6, 9));
  EXPECT_THAT(of_one({3}, x, [](const Node& n) { return pad(n, 0, {{1, -1, 1}}); }),
              ElementsAre(0, 1, 0, 2, 0));
  EXPECT_THAT(of_one({2, 3}, x, [](const Node& n) { return stack(split(n, 3, 1), 0); }),
              ElementsAre(1, 4, 2, 5, 3, 6));
  // Shapes whose axes are no parts of each other.
  EXPECT_THAT(of_one({2, 3}, x, [](const Node& n) { return reshape(transpose(n), {2, 3}); }),
              ElementsAre(1, 4, 2, 5, 3, 6));
}

// F3: products by letters, and of stacks of matrices
TEST(GraphOpsTest, SingleAxesAndParts) {
  const Doubles x = some(12);
  const auto is = [&](const std::function<Node(const Node&)>& a,
                      const std::function<Node(const Node&)>& b) {
    EXPECT_EQ(of_one({3, 4}, x, a), of_one({3, 4}, x, b));
  };
  is([](auto& n) { return sum(n, 1); }, [](auto& n) { return sum(n, {1}); });
  is([](auto& n) { return mean(n, -2); }, [](auto& n) { return mean(n, {0}); });
  is([](auto& n) { return expand_dims(n, 0); }, [](auto& n) { return expand_dims(n, {0}); });
  is([](auto& n) { return squeeze(expand_dims(n, 0), 0); }, [](auto& n) { return n; });
  is([](auto& n) { return n[1]; }, [](auto& n) { return reshape(slice(n, {{1, 2}}), {4}); });
  is([](auto& n) { return n[-1][2]; }, [](auto& n) { return take(take(n, 2), 2); });
  is([](auto& n) { return take(n, -1, 1); },
     [](auto& n) { return reshape(slice(n, 1, {3, 4}), {3}); });
  is(
      [](auto& n) {
        Node y = n;
        y += 1;
        y *= n;
        y -= n;
        y /= 2;
        return y;
      },
      [](auto& n) { return ((n + 1) * n - n) / 2; });
  const Graph g("outside");
  const Node n = g.parameter("n", {f32, {3, 4}});
  EXPECT_EQ(n.shape(), (Dims{3, 4}));
  Node more = n;
  const unsigned line = std::source_location::current().line() + 1;
  more += 1;
  const Node part = more[1];
  EXPECT_EQ(more.where().line(), line);
  EXPECT_EQ(part.where().line(), line + 1);
  EXPECT_THAT(failure([&] { static_cast<void>(n[3]); }).message(),
              ::testing::HasSubstr("graph_ops_test.cpp:"));
  EXPECT_THAT(failure([&] { static_cast<void>(n[3]); }).message(),
              ::testing::HasSubstr("axis 0 has 3 elements, and none at 3"));
  EXPECT_THAT(failure([&] { static_cast<void>(take(n, -5, 1)); }).message(),
              ::testing::HasSubstr("axis 1 has 4 elements, and none at -5"));
}

TEST(GraphOpsTest, ReductionsOfAnotherType) {
  const auto of_bytes = [](const std::function<Node(const Node&)>& make) {
    const Graph g("bytes");
    const Node x = g.parameter("x", {u8, {3}});
    g.finish({make(x)});
    return run_graph(g, {HostArray::fill({u8, {3}}, Doubles{200, 100, 7})})[0];
  };
  EXPECT_EQ(of_bytes([](auto& x) { return sum(x); }).at(0), 307 - 256) << "integers wrap";
  const HostArray wide = of_bytes([](auto& x) { return sum(x, {}, {.as = i64}); });
  EXPECT_EQ(wide.type(), (ArrayType{i64, {}}));
  EXPECT_EQ(wide.at(0), 307);
  EXPECT_EQ(of_bytes([](auto& x) { return product(x, 0, {.keep = true, .as = i32}); }).at(0),
            140'000);
  EXPECT_EQ(of_bytes([](auto& x) { return mean(x, {}, {.as = f64}); }).type().dtype, f64);
  EXPECT_EQ(of_bytes([](auto& x) { return variance(x, {}, {.as = f64}); }).type().dtype, f64);
  EXPECT_EQ(of_bytes([](auto& x) { return logsumexp(x, {}, {.as = f64}); }).type().dtype, f64);
  EXPECT_EQ(of_bytes([](auto& x) { return argmax(x, 0, {.as = f32}); }).at(0), 0);
}

TEST(GraphOpsTest, Products) {
  const Doubles a = some(12);
  const Doubles b = some(24);
  Doubles wanted;
  for (int n = 0; n < 2; ++n)
    for (int i = 0; i < 2; ++i)
      for (int k = 0; k < 4; ++k) {
        double sum = 0;
        for (int j = 0; j < 3; ++j) sum += a[n * 6 + i * 3 + j] * b[n * 12 + j * 4 + k];
        wanted.push_back(sum);
      }
  const Dims left{2, 2, 3};
  const Dims right{2, 3, 4};
  expect_near(of_two(left, a, right, b, [](const Node& x, const Node& y) { return matmul(x, y); }),
              wanted);
  expect_near(of_two(left, a, right, b,
                     [](const Node& x, const Node& y) { return einsum("nij,njk->nik", {x, y}); }),
              wanted);
  double trace = 0;
  for (int k = 0; k < 12; ++k) trace += a[k] * a[k];
  expect_near(of_one(left, a, [](const Node& x) { return einsum("nij,nij->", {x, x}); }), {trace});
  Doubles rows;
  for (int k = 0; k < 4; ++k) rows.push_back(a[3 * k] + a[3 * k + 1] + a[3 * k + 2]);
  expect_near(of_one(left, a, [](const Node& x) { return einsum("nij->ni", {x}); }), rows);
}

struct Geometry {
  int step, low, high, dilation, groups;
};

/// A convolution of [2, 4, 7] images with [4, 4 / groups, 3] filters.
Doubles convolution_of(const Doubles& x, const Doubles& w, const Geometry& geometry) {
  const int channels = 4 / geometry.groups;
  const int places = (7 + geometry.low + geometry.high - 2 * geometry.dilation - 1) / geometry.step;
  Doubles result;
  for (int n = 0; n < 2; ++n)
    for (int o = 0; o < 4; ++o)
      for (int t = 0; t <= places; ++t) {
        double sum = 0;
        for (int c = 0; c < channels; ++c)
          for (int k = 0; k < 3; ++k) {
            const int at = t * geometry.step + k * geometry.dilation - geometry.low;
            const int channel = o / (4 / geometry.groups) * channels + c;
            if (at >= 0 && at < 7)
              sum += x[(n * 4 + channel) * 7 + at] * w[(o * channels + c) * 3 + k];
          }
        result.push_back(sum);
      }
  return result;
}

// F3: convolutions with steps, padding, dilation and groups
TEST(GraphOpsTest, Convolutions) {
  const std::vector<Geometry> geometries{{1, 0, 0, 1, 1}, {2, 1, 2, 1, 2}, {1, 2, 0, 2, 4}};
  for (const Geometry& g : geometries) {
    const Doubles x = some(56);
    const Doubles w = some(static_cast<std::size_t>(48 / g.groups));
    ConvOptions options;
    options.step = {g.step};
    options.padding = {{g.low, g.high, 0}};
    options.dilation = {g.dilation};
    options.groups = g.groups;
    expect_near(of_two({2, 4, 7}, x, {4, 4 / g.groups, 3}, w,
                       [&](const Node& a, const Node& b) { return conv(a, b, options); }),
                convolution_of(x, w, g));
  }
}

// F3: the transposed convolution is the transpose: <conv(x), y> = <x, conv_transposed(y)>
TEST(GraphOpsTest, TransposedConvolutions) {
  for (const Geometry& g : {Geometry{1, 0, 0, 1, 1}, Geometry{2, 1, 1, 2, 2}}) {
    const Doubles x = some(56);
    const Doubles w = some(static_cast<std::size_t>(48 / g.groups));
    const Doubles forward = convolution_of(x, w, g);
    const auto places = static_cast<std::int64_t>(forward.size() / 8);
    Doubles y = some(forward.size());
    std::ranges::reverse(y);
    ConvOptions options;
    options.step = {g.step};
    options.padding = {{g.low, g.high, 0}};
    options.dilation = {g.dilation};
    options.groups = g.groups;
    const Doubles back =
        of_two({2, 4, places}, y, {4, 4 / g.groups, 3}, w,
               [&](const Node& a, const Node& b) { return conv_transposed(a, b, options); });
    ASSERT_EQ(back.size(), x.size());
    expect_near({std::inner_product(x.begin(), x.end(), back.begin(), 0.0)},
                {std::inner_product(forward.begin(), forward.end(), y.begin(), 0.0)});
  }
}

// F3: normalisations, activations, losses
TEST(GraphOpsTest, Layers) {
  const Doubles x{1, 3, -2, 6};
  const Graph g("layers");
  const Node node = g.parameter("x", {f32, {1, 4}});
  const Node scale = g.parameter("scale", {f32, {4}});
  const Node shift = g.parameter("shift", {f32, {4}});
  const Node label = g.parameter("label", {i32, {1}});
  g.finish({layer_norm(node, scale, shift, 0), rms_norm(node, scale, 0), gelu(node), silu(node),
            cross_entropy(node, label), one_hot(label, 4)});
  const auto found = run_graph(
      g, {HostArray::fill({f32, {1, 4}}, x), HostArray::fill({f32, {4}}, Doubles{1, 2, 1, 1}),
          HostArray::fill({f32, {4}}, Doubles{0, 0, 1, 0}), HostArray::of<std::int32_t>({1}, {3})});
  const double spread = std::sqrt((1 + 1 + 16 + 16) / 4.0);
  expect_near(values_of(found[0]), {-1 / spread, 2 / spread, -4 / spread + 1, 4 / spread});
  const double size = std::sqrt(50 / 4.0);
  expect_near(values_of(found[1]), {1 / size, 6 / size, -2 / size, 6 / size});
  Doubles gelus;
  Doubles silus;
  for (const double v : x) {
    gelus.push_back(v * (1 + std::erf(v / std::sqrt(2))) / 2);
    silus.push_back(v / (1 + std::exp(-v)));
  }
  expect_near(values_of(found[2]), gelus);
  expect_near(values_of(found[3]), silus);
  expect_near(values_of(found[4]), {-std::log(softmax_of(x)[3])});
  EXPECT_THAT(values_of(found[5]), ElementsAre(0, 0, 0, 1));
}

// F3: an index outside is no place, however large it is, in each type of indices
TEST(GraphOpsTest, OneHotOfEachType) {
  const auto found = []<class T>(const std::vector<T>& indices) {
    const auto n = static_cast<std::int64_t>(indices.size());
    const Graph g("one_hot");
    g.finish({one_hot(g.parameter("i", {dtype_of_v<T>, {n}}), 2)});
    return values_of(run_graph(g, {HostArray::of<T>({n}, indices)})[0]);
  };
  constexpr std::int64_t wraps = (std::int64_t{1} << 32) + 1;
  EXPECT_THAT(found(std::vector<std::int64_t>{1, wraps, -wraps, -1}),
              ElementsAre(0, 1, 0, 0, 0, 0, 0, 0));
  EXPECT_THAT(found(std::vector<std::uint64_t>{1, wraps, ~std::uint64_t{0}}),
              ElementsAre(0, 1, 0, 0, 0, 0));
  EXPECT_THAT(found(std::vector<std::uint32_t>{0, 2, ~std::uint32_t{0}}),
              ElementsAre(1, 0, 0, 0, 0, 0));
  EXPECT_THAT(found(std::vector<std::int8_t>{0, -1, 2}), ElementsAre(1, 0, 0, 0, 0, 0));
}

// F3: attention sees no later keys where it is causal, and none that are masked
TEST(GraphOpsTest, Attention) {
  const Doubles q = some(6);
  const Doubles v = some(6);
  Doubles wanted;
  for (int i = 0; i < 3; ++i) {
    Doubles scores;
    for (int j = 0; j <= i; ++j)
      scores.push_back((q[2 * i] * v[2 * j] + q[2 * i + 1] * v[2 * j + 1]) / std::sqrt(2));
    const Doubles share = softmax_of(scores);
    for (int d = 0; d < 2; ++d) {
      double sum = 0;
      for (int j = 0; j <= i; ++j) sum += share[j] * v[2 * j + d];
      wanted.push_back(sum);
    }
  }
  expect_near(of_two({3, 2}, q, {3, 2}, v,
                     [](const Node& a, const Node& b) {
                       return attention(a, b, b, {.causal = true, .scale = 0});
                     }),
              wanted);
  expect_near(of_two({3, 2}, q, {3, 2}, v,
                     [](const Node& a, const Node& b) {
                       const Node seen = tril(exp(matmul(a, transpose(b)))) > 0;
                       return attention(a, b, b, {}, seen);
                     }),
              wanted);
}

// F3: bits depend on key and place alone; parts of keys differ; numbers are spread as asked
TEST(GraphOpsTest, RandomNumbers) {
  const Graph g("random");
  const Node key = g.constant(std::uint64_t{7}, u64);
  const Node keys = split_key(key, 3);
  const Node first = reshape(slice(keys, 0, {0, 1}), {});
  const Node weights = g.iota({f32, {4}}, 0) + 1;
  g.finish({random_bits(key, {2, 3}), random_bits(key, {6}), random_bits(first, {6}), keys,
            random_uniform(key, {4000}), random_normal(fold_in(key, 3), {4000}),
            bernoulli(first, 0.25, {4000}),
            one_hot(categorical(key, broadcast_to(log(weights), {4000, 4})), 4),
            dropout(broadcast_to(g.constant(3.0F), {4000}), key, 0.25)});
  const auto found = run_graph(g, {});
  EXPECT_EQ(values_of(found[0]), values_of(found[1]));
  EXPECT_NE(values_of(found[1]), values_of(found[2]));
  const std::vector<double> several = values_of(found[3]);
  EXPECT_EQ(std::set(several.begin(), several.end()).size(), 3U);
  const auto average = [&](std::size_t n, const std::function<double(double)>& of) {
    double sum = 0;
    for (const double x : values_of(found[n])) sum += of(x);
    return sum / static_cast<double>(found[n].num_elements());
  };
  const auto itself = [](double x) { return x; };
  const auto square = [](double x) { return x * x; };
  EXPECT_NEAR(average(4, itself), 0.5, 0.02);
  EXPECT_NEAR(average(5, itself), 0, 0.05);
  EXPECT_NEAR(average(5, square), 1, 0.08);
  EXPECT_NEAR(average(6, itself), 0.25, 0.03);
  const std::vector<double> chosen = values_of(found[7]);
  for (std::size_t k = 0; k < 4; ++k) {
    double times = 0;
    for (std::size_t n = k; n < chosen.size(); n += 4) times += chosen[n];
    EXPECT_NEAR(times / 4000, static_cast<double>(k + 1) / 10, 0.03) << k;
  }
  EXPECT_THAT(values_of(found[8]), Each(AnyOf(0, 4)));
  EXPECT_NEAR(average(8, itself), 3, 0.1);
}

}  // namespace
}  // namespace heddle
