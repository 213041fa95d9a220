// Operations on rare inputs without other coverage: scalars, no elements, NaN, and unusual types.
#include <cmath>

#include "numpy/op_cases.hpp"

namespace heddle::numpy {

static void add_rare_elements(Cases& c) {
  c.family("elementwise");
  const Types whole{u8, i32, u64};
  c.two(
      "arg1, types joined", few, matrix, matrix,
      [](auto& a, auto& b) { return arg1(a, cast(b, f64)); }, "np.float64(a)");
  c.two(
      "arg2, types joined", few, matrix, matrix,
      [](auto& a, auto& b) { return arg2(a, cast(b, f64)); }, "np.float64(b)");
  const auto of_whole = [&](const char* name, One make, const char* numpy) {
    c.more(
        std::string(name) + " of whole numbers", whole, {positive},
        [make](const Graph&, const Nodes& x) { return make(x[0]); }, numpy);
  };
  of_whole("log", [](auto& x) { return log(x); }, "np.log(np.float64(a))");
  of_whole("exp2", [](auto& x) { return exp2(x); }, "np.exp2(np.float64(a))");
  of_whole("log2", [](auto& x) { return log2(x); }, "np.log2(np.float64(a))");
  of_whole("sin", [](auto& x) { return sin(x); }, "np.sin(np.float64(a))");
  of_whole("cos", [](auto& x) { return cos(x); }, "np.cos(np.float64(a))");
  of_whole("erf", [](auto& x) { return erf(x); }, "erf(np.float64(a))");
  of_whole("recip", [](auto& x) { return recip(x); }, "1 / np.float64(a)");
  of_whole("rsqrt", [](auto& x) { return rsqrt(x); }, "1 / np.sqrt(np.float64(a))");
}

static void add_rare_sums(Cases& c) {
  c.family("contraction");
  c.two(
      "conv, no channels", few, In{{2, 0, 5}}, In{{4, 0, 3}},
      [](auto& a, auto& b) { return conv(a, b); }, "conv(a, b, [1], [(0, 0)], [1], 1)");
  c.two(
      "conv_transposed, two axes", few, In{{2, 4, 3, 5}}, In{{4, 3, 2, 3}},
      [](auto& a, auto& b) { return conv_transposed(a, b, {.step = {2, 2}}); },
      "conv_transposed(a, b, 2)");
  c.two(
      "conv_transposed, three axes", few, In{{1, 2, 2, 3, 2}}, In{{2, 3, 2, 2, 2}},
      [](auto& a, auto& b) { return conv_transposed(a, b); }, "conv_transposed(a, b, 1)");
  c.family("reduction");
  c.one(
      "product, negative axes", few, batch, [](auto& x) { return product(x, {-1, -3}); },
      "np.prod(a, (-1, -3), dtype=a.dtype)");
  c.one("minimum of a scalar", few, scalar, [](auto& x) { return minimum(x); }, "np.min(a)");
  c.one(
      "maximum of truth values", booleans, matrix, [](auto& x) { return maximum(x, {0}); },
      "np.max(a, 0)");
  c.one(
      "minimum of truth values", booleans, matrix, [](auto& x) { return minimum(x, {1}); },
      "np.min(a, 1)");
  c.one("all of a scalar", few, scalar, [](auto& x) { return all(x); }, "np.all(a)");
  c.one("any of a scalar", few, scalar, [](auto& x) { return any(x); }, "np.any(a)");
  c.one(
      "all, negative axes, kept", few, batch,
      [](auto& x) { return all(x, {-1, 0}, {.keep = true}); }, "np.all(a, (-1, 0), keepdims=True)");
  c.one(
      "any of NaN", floats, special, [](auto& x) { return any(x * NAN, {1}); },
      "np.any(a * np.nan, 1)");
  c.one(
      "mean of no elements", few, none, [](auto& x) { return mean(x, {0}); }, "np.full(3, np.nan)");
  c.one("mean of NaN", floats, special, [](auto& x) { return mean(x, {0}); }, "np.mean(a, 0)");
  c.one("variance of a scalar", few, scalar, [](auto& x) { return variance(x); }, "np.var(a)");
  c.one(
      "cumprod, each product rounded", halves, In{{3, 20}, V::positive},
      [](auto& x) { return cast(cumprod(x), f32); }, "running(a, dtype, np.multiply)");
  c.one(
      "window_maximum of NaN", floats, special,
      [](auto& x) { return window_maximum(x, {.size = {2, 2}}); },
      "windows(a, (2, 2), (2, 2)).max((2, 3))");
  c.one(
      "window_minimum, dilated, NaN", floats, special,
      [](auto& x) {
        return window_minimum(x, {.size = {2, 2}, .step = {1, 1}, .dilation = {2, 3}});
      },
      "windows(a, (3, 4), (1, 1))[..., ::2, ::3].min((2, 3))");
  c.one(
      "window_maximum of truth values", booleans, matrix,
      [](auto& x) { return window_maximum(x, {.size = {2, 3}}); },
      "windows(a, (2, 3), (2, 3)).max((2, 3))");
}

static void add_rare_layers(Cases& c) {
  c.family("layout");
  c.one("tril, no elements", few, none, [](auto& x) { return tril(x); }, "np.tril(a)");
  c.family("neural");
  c.one("gelu, no elements", few, none, [](auto& x) { return gelu(x); }, "np.float64(a)");
  c.one("silu, no elements", few, none, [](auto& x) { return silu(x); }, "np.float64(a)");
  c.one(
      "silu of a scalar", few, scalar, [](auto& x) { return silu(x); },
      "a / (1 + np.exp(-np.float64(a)))");
  c.one(
      "one_hot, none", {i64}, In{{0}, V::places}, [](auto& x) { return one_hot(x, 6); },
      "np.zeros((0, 6))");
  c.two(
      "cross_entropy, no rows", few, nothing, In{{0}, V::places},
      [](auto& x, auto& labels) { return cross_entropy(x, labels); }, "np.zeros(0)");
}

void add_rare_cases(Cases& c) {
  add_rare_elements(c);
  add_rare_sums(c);
  add_rare_layers(c);
  c.family("random");
  c.one(
      "random_bits, none", {u64}, key, [](auto& k) { return random_bits(k, {0, 3}); },
      "np.zeros((0, 3), np.uint64)");
  c.one(
      "random_uniform, a scalar", {u64}, key, [](auto& k) { return random_uniform(k, {}); },
      "upper_bits(threefry(a, np.uint64(0)))");
  c.one(
      "random_normal, a scalar", {u64}, key, [](auto& k) { return random_normal(k, {}); },
      "normal(threefry(a, np.uint64(0)))");
  c.two(
      "fold_in, computed", {u64}, key, In{{}, V::places},
      [](auto& k, auto& x) { return fold_in(k, x - 3); },
      "threefry(threefry(a, np.uint64(1 << 62)), (b - 3).astype(np.uint64))");
  c.one(
      "bernoulli, none", {u64}, key, [](auto& k) { return bernoulli(k, 0.5, {0}); },
      "np.zeros(0, bool)");
  c.one(
      "bernoulli, a scalar", {u64}, key, [](auto& k) { return bernoulli(k, 0.5, {}); },
      "upper_bits(threefry(a, np.uint64(0))) < 0.5");
  c.two(
      "bernoulli, each with its own", few, key, In{{40}},
      [](auto& k, auto& p) { return bernoulli(k, cast(p, f32) / 4, {2, 40}); },
      "upper_bits(threefry(a, np.arange(80, dtype=np.uint64).reshape(2, 40))) < b / 4");
  c.two(
      "categorical of few values", {f16, bf16, i32, u8}, key, In{{20, 3}},
      [](auto& k, auto& x) { return categorical(k, x); },
      "np.argmax(b - np.log(-np.log(np.floor(2.0 ** 23 * upper_bits(threefry(a, "
      "np.arange(60, dtype=np.uint64).reshape(20, 3)))) * 2.0 ** -23 + 2.0 ** -24)), -1)");
  c.two(
      "categorical, impossible ones", {f32}, key, In{{20, 3}},
      [](auto& k, auto& x) { return categorical(k, where(x > 1, -HUGE_VAL, x)); },
      "np.argmax(np.where(b > 1, -np.inf, b) - np.log(-np.log(np.floor(2.0 ** 23 * upper_bits("
      "threefry(a, np.arange(60, dtype=np.uint64).reshape(20, 3)))) * 2.0 ** -23 + 2.0 ** -24)), "
      "-1)");
  c.two(
      "dropout, no elements", few, key, none, [](auto& k, auto& x) { return dropout(x, k, 0.5); },
      "b / 0.5");
}

}  // namespace heddle::numpy
