// Layers of networks, and random numbers.
#include "numpy/op_cases.hpp"

namespace heddle::numpy {

static void add_attention(Cases& c) {
  c.more(
      "attention", numbers, {batch, batch, batch},
      [](const Graph&, const Nodes& x) { return attention(x[0], x[1], x[2]); },
      "attention(a, b, c)");
  c.more(
      "attention, causal", numbers, {batch, batch, batch},
      [](const Graph&, const Nodes& x) { return attention(x[0], x[1], x[2], {.causal = true}); },
      "attention(a, b, c, np.tri(3))");
  c.more(
      "attention, scale given", numbers, {batch, batch, batch},
      [](const Graph&, const Nodes& x) {
        return attention(x[0], x[1], x[2], {.causal = false, .scale = 0.25});
      },
      "attention(a, b, c, scale=0.25)");
  const In longer{{2, 5, 4}};
  c.more(
      "attention, causal, fewer queries than keys", numbers, {batch, longer, longer},
      [](const Graph&, const Nodes& x) { return attention(x[0], x[1], x[2], {.causal = true}); },
      "attention(a, b, c, np.tri(3, 5, 2))");
  c.more(
      "attention, causal, more queries than keys", numbers, {longer, batch, batch},
      [](const Graph&, const Nodes& x) { return attention(x[0], x[1], x[2], {.causal = true}); },
      "attention(a, b, c, np.tri(5, 3, -2))");
  c.more(
      "attention, causal, scale given, masked", wide_floats, {batch, longer, longer, {{3, 5}}},
      [](const Graph&, const Nodes& x) {
        return attention(x[0], x[1], x[2], {.causal = true, .scale = 2}, x[3] > 0);
      },
      "attention(a, b, c, np.tri(3, 5, 2) * (d > 0), 2)");
}

void add_neural(Cases& c) {
  c.family("neural");
  c.one("softmax", numbers, matrix, [](auto& x) { return softmax(x); }, "softmax(a)");
  c.one(
      "log_softmax", numbers, matrix, [](auto& x) { return log_softmax(x); }, "np.log(softmax(a))");
  c.more(
      "layer_norm", numbers, {matrix, row, row},
      [](const Graph&, const Nodes& x) { return layer_norm(x[0], x[1], x[2]); },
      "(a - a.mean(-1, keepdims=True)) / np.sqrt(a.var(-1, keepdims=True) + 1e-5) * b + c");
  c.two(
      "rms_norm", numbers, matrix, row, [](auto& x, auto& s) { return rms_norm(x, s); },
      "a / np.sqrt(np.mean(a * a, -1, keepdims=True) + 1e-5) * b");
  c.one(
      "gelu", numbers, matrix, [](auto& x) { return gelu(x); },
      "a * (1 + erf(a / np.sqrt(2))) / 2");
  c.one(
      "silu", numbers, matrix, [](auto& x) { return silu(x); }, "a / (1 + np.exp(-np.float64(a)))");
  c.one(
      "one_hot", {DType::i64}, {{5}, V::places}, [](auto& x) { return one_hot(x, 6); },
      "(a[:, None] == np.arange(6)).astype(np.float32)");
  c.two(
      "cross_entropy", numbers, matrix, {{4}, V::places},
      [](auto& x, auto& labels) { return cross_entropy(x, labels); },
      "-np.log(softmax(a))[np.arange(4), np.maximum(b, 0)]");
  add_attention(c);
}

void add_random(Cases& c) {
  c.family("random");
  const Types any_integer{i8, i16, i32, i64, u8, u16, u32, u64, bool_};
  const In bits{{4, 6}, V::bits};
  c.two(
      "threefry", any_integer, key, matrix, [](auto& k, auto& x) { return threefry(k, x); },
      "threefry(a, b)");
  c.two(
      "threefry, any bits", {u64}, bits, bits, [](auto& k, auto& x) { return threefry(k, x); },
      "threefry(a, b)");
  c.two(
      "threefry_light", any_integer, key, matrix,
      [](auto& k, auto& x) { return threefry_light(k, x); }, "threefry(a, b, 12)");
  c.one("uniform", {u64}, bits, [](auto& x) { return uniform(x); }, "upper_bits(a)");
  c.one(
      "uniform of narrow integers", {u8, i32, u32}, matrix, [](auto& x) { return uniform(x); },
      "upper_bits(a.astype(np.uint64))");
  c.one(
      "random_bits", {u64}, key, [](auto& k) { return random_bits(k, {2, 3}); },
      "threefry(a, np.arange(6, dtype=np.uint64).reshape(2, 3))");
  c.one(
      "random_uniform", {u64}, key, [](auto& k) { return random_uniform(k, {2, 3}); },
      "upper_bits(threefry(a, np.arange(6, dtype=np.uint64).reshape(2, 3)))");
  c.one(
      "random_normal", {u64}, key, [](auto& k) { return random_normal(k, {40}); },
      "normal(threefry(a, np.arange(40, dtype=np.uint64)))");
  c.one(
      "split_key", {u64}, key, [](auto& k) { return split_key(k, 3); },
      "threefry(a, np.arange(3, dtype=np.uint64) + np.uint64(1 << 63))");
  c.one(
      "fold_in", {u64}, key, [](auto& k) { return fold_in(k, 7); },
      "threefry(threefry(a, np.uint64(1 << 62)), np.uint64(7))");
  c.one(
      "bernoulli", {u64}, key, [](auto& k) { return bernoulli(k, 0.25, {40}); },
      "upper_bits(threefry(a, np.arange(40, dtype=np.uint64))) < 0.25");
  c.two(
      "categorical", wide_floats, key, In{{20, 3}},
      [](auto& k, auto& x) { return categorical(k, x); },
      "np.argmax(b - np.log(-np.log(np.floor(2.0 ** 23 * upper_bits(threefry(a, "
      "np.arange(60, dtype=np.uint64).reshape(20, 3)))) * 2.0 ** -23 + 2.0 ** -24)), -1)");
  c.one(
      "permutation", {u64}, key, [](auto& k) { return permutation(k, 100); },
      "np.argsort(threefry(a, np.arange(100, dtype=np.uint64)))");
  c.two(
      "dropout", numbers, key, matrix, [](auto& k, auto& x) { return dropout(x, k, 0.5); },
      "np.where(upper_bits(threefry(a, np.arange(24, dtype=np.uint64).reshape(4, 6))) < 0.5, 0, "
      "b / 0.5)");
  c.one(
      "random_bits, a scalar", {u64}, key, [](auto& k) { return random_bits(k, {}); },
      "threefry(a, np.uint64(0))");
  c.one(
      "random_uniform, no elements", {u64}, key, [](auto& k) { return random_uniform(k, {0, 3}); },
      "np.zeros((0, 3))");
  c.one(
      "random_normal, no elements", {u64}, key, [](auto& k) { return random_normal(k, {0}); },
      "np.zeros(0)");
  c.one(
      "split_key, none", {u64}, key, [](auto& k) { return split_key(k, 0); },
      "np.zeros(0, np.uint64)");
  c.two(
      "categorical, no rows", {f32}, key, In{{0, 3}},
      [](auto& k, auto& x) { return categorical(k, x); }, "np.zeros(0, np.int64)");
  c.two(
      "dropout of a scalar, none dropped", few, key, scalar,
      [](auto& k, auto& x) { return dropout(x, k, 0); }, "b / 1.0");
}

}  // namespace heddle::numpy
