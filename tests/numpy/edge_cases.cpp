// Operations at edge cases of shapes: scalars, no elements, negative axes, and defaults.
// Elementwise operations: elementwise_cases.cpp.
#include <cmath>

#include "numpy/op_cases.hpp"

namespace heddle::numpy {

static const In single{{1, 6, 1}};

static void add_scalars_and_nothing(Cases& c) {
  c.family("layout");
  c.one(
      "broadcast_in_dim, no elements", few, In{{0}},
      [](auto& x) { return broadcast_in_dim(x, {0, 3}, {0}); },
      "np.broadcast_to(a[:, None], (0, 3))");
  c.one(
      "transpose of a scalar", few, scalar, [](auto& x) { return transpose(x); },
      "np.transpose(a)");
  c.one("squeeze of a scalar", few, scalar, [](auto& x) { return squeeze(x); }, "np.squeeze(a)");
  c.one(
      "squeeze, no elements", few, In{{0, 1}}, [](auto& x) { return squeeze(x); },
      "np.squeeze(a, 1)");
  c.one(
      "expand_dims, no elements", few, none, [](auto& x) { return expand_dims(x, {1}); },
      "a[:, None]");
  c.one("slice of a scalar", few, scalar, [](auto& x) { return slice(x, {}); }, "a.copy()");
  c.one(
      "slice, no elements", few, none,
      [](auto& x) { return slice(x, {{1, 4}, {Range::open, Range::open, -2}}); }, "a[1:4, ::-2]");
  c.one("reverse of a scalar", few, scalar, [](auto& x) { return reverse(x); }, "np.flip(a)");
  c.two(
      "stack, no elements", few, none, none, [](auto& a, auto& b) { return stack({a, b}, 1); },
      "np.stack([a, b], 1)");
  c.one("pad of a scalar", few, scalar, [](auto& x) { return pad(x, 3, {}); }, "a.copy()");
  c.more(
      "iota, no elements", few, {none},
      [](const Graph& g, const Nodes& x) { return x[0] + g.iota(x[0].type(), 0); }, "a.copy()");
}

void add_edges_of_layout(Cases& c) {
  add_scalars_and_nothing(c);
  c.one(
      "broadcast_to, a scalar", few, scalar, [](auto& x) { return broadcast_to(x, {2, 3}); },
      "np.broadcast_to(a, (2, 3))");
  c.one(
      "broadcast_to, no elements", few, In{{1, 3}},
      [](auto& x) { return broadcast_to(x, {2, 0, 3}); }, "np.broadcast_to(a, (2, 0, 3))");
  c.one(
      "broadcast_in_dim, a scalar", few, scalar,
      [](auto& x) { return broadcast_in_dim(x, {2, 3}, {}); }, "np.broadcast_to(a, (2, 3))");
  c.one(
      "reshape to a scalar", few, In{{1, 1}}, [](auto& x) { return reshape(x, {}); },
      "a.reshape(())");
  c.one(
      "reshape, no elements", few, none, [](auto& x) { return reshape(x, {3, 2, 0}); },
      "a.reshape(3, 2, 0)");
  c.one("transpose, all axes", few, batch, [](auto& x) { return transpose(x); }, "np.transpose(a)");
  c.one(
      "transpose, negative axes", few, batch, [](auto& x) { return transpose(x, {-1, 0, -2}); },
      "a.transpose(-1, 0, -2)");
  c.one(
      "transpose, no elements", few, none, [](auto& x) { return transpose(x); }, "np.transpose(a)");
  c.one(
      "squeeze, a negative axis", few, single, [](auto& x) { return squeeze(x, {-1}); },
      "np.squeeze(a, -1)");
  c.one(
      "expand_dims of a scalar", few, scalar, [](auto& x) { return expand_dims(x, {0, -1}); },
      "a.reshape(1, 1)");
  c.one(
      "slice, negative and beyond", few, matrix,
      [](auto& x) { return slice(x, {{-9, 3}, {-2, -9, -3}}); }, "a[-9:3, -2:-9:-3]");
  c.one("slice to nothing", few, matrix, [](auto& x) { return slice(x, -1, {4, 2}); }, "a[:, 4:2]");
  c.one("reverse, all axes", few, batch, [](auto& x) { return reverse(x); }, "np.flip(a)");
  c.one(
      "reverse, no elements", few, none, [](auto& x) { return reverse(x, {-1}); },
      "np.flip(a, -1)");
  c.two(
      "concatenate, one without elements", few, matrix, nothing,
      [](auto& a, auto& b) { return concatenate({b, a, b}); }, "np.concatenate([b, a, b])");
  c.two(
      "concatenate, types joined", few, matrix, matrix,
      [](auto& a, auto& b) { return concatenate({a, cast(b, f64)}, -1); },
      "np.concatenate([np.float64(a), b], -1)");
  c.two(
      "stack of scalars", few, scalar, scalar, [](auto& a, auto& b) { return stack({a, b}); },
      "np.stack([a, b])");
  c.two(
      "stack, a negative axis", few, matrix, matrix,
      [](auto& a, auto& b) { return stack({a, b}, -1); }, "np.stack([a, b], -1)");
  c.one(
      "split, no elements", few, none, [](auto& x) { return split(x, 3, -1)[2]; },
      "np.split(a, 3, -1)[2]");
  c.one(
      "pad, no elements", few, none, [](auto& x) { return pad(x, 3, {{1, 1, 2}}); },
      "np.pad(a, ((1, 1), (0, 0)), constant_values=3)");
  c.one("tril of several, far", few, batch, [](auto& x) { return tril(x, -2); }, "np.tril(a, -2)");
  c.one("triu, no elements", few, none, [](auto& x) { return triu(x); }, "np.triu(a)");
}

static void add_edges_of_products(Cases& c) {
  c.family("contraction");
  const In vector{{4}}, square{{4, 4}};
  c.two(
      "matmul, vectors", few, vector, vector, [](auto& a, auto& b) { return matmul(a, b); },
      "a @ b");
  c.two(
      "matmul, a vector first", few, vector, square, [](auto& a, auto& b) { return matmul(a, b); },
      "a @ b");
  c.two(
      "matmul, a vector last", few, batch, vector, [](auto& a, auto& b) { return matmul(a, b); },
      "a @ b");
  c.two(
      "matmul, batches broadcast", few, batch, square,
      [](auto& a, auto& b) { return matmul(a, b); }, "a @ b");
  c.two(
      "matmul over no elements", few, In{{2, 0}}, none,
      [](auto& a, auto& b) { return matmul(a, b); }, "a @ b");
  c.two(
      "matmul, no rows", few, none, In{{3, 4}}, [](auto& a, auto& b) { return matmul(a, b); },
      "a @ b");
  c.two(
      "dot_general over all axes", few, batch, batch,
      [](auto& a, auto& b) {
        return dot_general(
            a, b,
            {.contract_a = {-1, 0, 1}, .contract_b = {2, 0, 1}, .batch_a = {}, .batch_b = {}});
      },
      "np.sum(a * b)");
  c.two(
      "dot_general of scalars", few, scalar, scalar,
      [](auto& a, auto& b) { return dot_general(a, b, {}); }, "a * b");
  c.two(
      "einsum of truth values", booleans, matrix, matrix,
      [](auto& a, auto& b) { return einsum("ij,ij->j", {a, b}); },
      "np.einsum('ij,ij->j', np.int32(a), np.int32(b))");
  c.two(
      "dot_general, no elements", few, none, none,
      [](auto& a, auto& b) {
        return dot_general(a, b,
                           {.contract_a = {0}, .contract_b = {0}, .batch_a = {1}, .batch_b = {1}});
      },
      "np.einsum('ij,ij->j', a, b)");
  c.two(
      "einsum, letters that occur once", few, square, square,
      [](auto& a, auto& b) { return einsum("kj,ji", {a, b}); }, "np.einsum('kj,ji', a, b)");
  c.two(
      "einsum, a scalar and an outer product", few, scalar, vector,
      [](auto& a, auto& b) { return einsum(",i,j->ij", {a, b, b}); },
      "np.einsum(',i,j->ij', a, b, b)");
  c.two(
      "einsum, no elements", few, none, none,
      [](auto& a, auto& b) { return einsum("ij,ik->jk", {a, b}); }, "np.einsum('ij,ik->jk', a, b)");
}

static void add_edges_of_convolutions(Cases& c) {
  c.family("contraction");
  c.two(
      "conv, no images", few, In{{0, 2, 5}}, In{{4, 2, 3}},
      [](auto& a, auto& b) { return conv(a, b); }, "conv(a, b, [1], [(0, 0)], [1], 1)");
  c.two(
      "conv, zeros between images", few, In{{2, 3, 5}}, In{{4, 3, 3}},
      [](auto& a, auto& b) { return conv(a, b, {.padding = {{1, -1, 1}}}); },
      "conv(spread(a, 0), b, [1], [(1, -1)], [1], 1)");
  c.two(
      "conv_transposed, dilated and cut", few, In{{2, 4, 5}}, In{{4, 3, 3}},
      [](auto& a, auto& b) {
        return conv_transposed(a, b, {.step = {2}, .padding = {{1, 2}}, .dilation = {2}});
      },
      "conv_transposed(a, b, 2, 2)[:, :, 1:-2]");
  c.two(
      "conv_transposed, no images", few, In{{0, 4, 5}}, In{{4, 3, 3}},
      [](auto& a, auto& b) { return conv_transposed(a, b, {.step = {2}}); },
      "conv_transposed(a, b, 2)");
}

void add_edges_of_sums(Cases& c) {
  add_edges_of_products(c);
  add_edges_of_convolutions(c);
  c.family("reduction");
  c.one(
      "sum over all axes", few, batch, [](auto& x) { return sum(x); }, "np.sum(a, dtype=a.dtype)");
  c.one(
      "sum, negative axes, kept", few, batch,
      [](auto& x) { return sum(x, {-1, -3}, {.keep = true}); },
      "np.sum(a, (-1, -3), dtype=a.dtype, keepdims=True)");
  c.one("sum of a scalar", few, scalar, [](auto& x) { return sum(x); }, "np.sum(a, dtype=a.dtype)");
  c.one(
      "sum of no elements", few, none, [](auto& x) { return sum(x, {0}); },
      "np.sum(a, 0, dtype=a.dtype)");
  c.one(
      "product of no elements", few, none, [](auto& x) { return product(x); },
      "np.prod(a, dtype=a.dtype)");
  c.one("product of a scalar", few, scalar, [](auto& x) { return product(x); }, "a.copy()");
  c.one("maximum of a scalar", few, scalar, [](auto& x) { return maximum(x); }, "np.max(a)");
  c.one("minimum over all axes", few, batch, [](auto& x) { return minimum(x); }, "np.min(a)");
  c.one("maximum, no rows", few, none, [](auto& x) { return maximum(x, {-1}); }, "np.max(a, -1)");
  c.one("all of no elements", few, none, [](auto& x) { return all(x, {0}); }, "np.all(a, 0)");
  c.one("any of no elements", few, none, [](auto& x) { return any(x); }, "np.any(a)");
  c.one("mean over all axes", few, batch, [](auto& x) { return mean(x); }, "np.mean(a)");
  c.one("mean of a scalar", few, scalar, [](auto& x) { return mean(x); }, "np.mean(a)");
  c.one(
      "variance, negative axes", few, batch, [](auto& x) { return variance(x, {-2, -1}); },
      "np.var(a, (-2, -1))");
  c.one("variance, no rows", few, none, [](auto& x) { return variance(x, {-1}); }, "np.var(a, -1)");
  c.one(
      "logsumexp, large and infinite", wide_floats, special,
      [](auto& x) { return logsumexp(x * 300, {1}, {.keep = true}); }, "logsumexp(a * 300)");
  c.one(
      "logsumexp of a scalar", few, scalar, [](auto& x) { return logsumexp(x); }, "np.float64(a)");
  c.one(
      "logsumexp of no elements", few, none, [](auto& x) { return logsumexp(x, {0}); },
      "np.full(3, -np.inf)");
  c.one(
      "argmax, kept", few, batch, [](auto& x) { return argmax(x, -2, {.keep = true}); },
      "np.argmax(a, -2)[:, None]");
  c.one("argmin, no rows", few, none, [](auto& x) { return argmin(x); }, "np.argmin(a, -1)");
  c.one(
      "cumsum, no elements", few, none, [](auto& x) { return cumsum(x, -2); },
      "np.cumsum(a, -2, dtype=a.dtype)");
  c.one("cumprod, no elements", few, none, [](auto& x) { return cumprod(x, 0); }, "a");
  c.one("cummax, no elements", few, none, [](auto& x) { return cummax(x); }, "a");
  c.one(
      "window_sum, dilated", few, matrix,
      [](auto& x) { return window_sum(x, {.size = {2, 2}, .step = {1, 1}, .dilation = {2, 3}}); },
      "windows(a, (3, 4), (1, 1))[..., ::2, ::3].sum((2, 3), dtype=a.dtype)");
  c.one(
      "window_maximum, no rows", few, none,
      [](auto& x) { return window_maximum(x, {.size = {2}, .step = {1}, .dilation = {}}); },
      "np.lib.stride_tricks.sliding_window_view(a, 2, -1).max(-1)");
}

static void add_edges_of_order(Cases& c) {
  c.family("order");
  c.one("sort, no elements", few, none, [](auto& x) { return sort(x, 0); }, "np.sort(a, 0)");
  c.one("argsort, no rows", few, none, [](auto& x) { return argsort(x); }, "np.argsort(a)");
  c.one(
      "argsort, descending, equal ones", integers, In{{4, 40}},
      [](auto& x) { return argsort(x, 1, {.descending = true}); },
      "39 - np.argsort(a[:, ::-1], kind='stable')[:, ::-1]");
  c.one("top_k, none", few, matrix, [](auto& x) { return top_k(x, 0).values; }, "a[:, :0]");
  c.one(
      "top_k, all, along the first axis", few, matrix,
      [](auto& x) { return top_k(x, 4, 0).values; }, "np.flip(np.sort(a, 0), 0)");
  c.two(
      "searchsorted in nothing", few, In{{0}}, matrix,
      [](auto& a, auto& b) { return searchsorted(a, b); }, "np.searchsorted(a, b)");
  c.two(
      "searchsorted, a scalar", few, row, scalar,
      [](auto& a, auto& b) { return searchsorted(sort(a), b); }, "np.searchsorted(np.sort(a), b)");
}

static void add_edges_of_layers(Cases& c) {
  c.family("neural");
  const In wild{{4, 6}, V::any};
  c.one(
      "softmax, along the first axis", few, matrix, [](auto& x) { return softmax(x, 0); },
      "softmax(a.T).T");
  c.one(
      "softmax, NaN and infinities", floats, wild, [](auto& x) { return softmax(x); },
      "softmax(a)");
  c.one("softmax, no rows", few, none, [](auto& x) { return softmax(x); }, "a.astype(np.float64)");
  c.one(
      "log_softmax, an infinity below", wide_floats, matrix,
      [](auto& x) { return log_softmax(where(x > 2, -HUGE_VAL, x)); },
      "np.log(softmax(np.where(a > 2, -np.inf, a)))");
  c.more(
      "layer_norm, no rows", few, {nothing, row, row},
      [](const Graph&, const Nodes& x) { return layer_norm(x[0], x[1], x[2]); },
      "a.astype(np.float64)");
  c.two(
      "rms_norm, epsilon given", few, matrix, row,
      [](auto& x, auto& s) { return rms_norm(x, s, 0.5); },
      "a / np.sqrt(np.mean(a * a, -1, keepdims=True) + 0.5) * b");
  c.one(
      "gelu of a scalar", few, scalar, [](auto& x) { return gelu(x); },
      "a * (1 + erf(a / np.sqrt(2))) / 2");
  c.one(
      "silu, NaN and infinities", floats, wild, [](auto& x) { return silu(x); },
      "a / (1 + np.exp(-a))");
  c.one(
      "sigmoid, NaN and infinities", floats, wild, [](auto& x) { return sigmoid(x); },
      "1 / (1 + np.exp(-a))");
  c.one(
      "one_hot of a scalar, as u8", {i64}, In{{}, V::places},
      [](auto& x) { return one_hot(x, 6, u8); }, "np.uint8(a == np.arange(6))");
  c.two(
      "cross_entropy, one row", few, row, In{{}, V::places},
      [](auto& x, auto& label) { return cross_entropy(x, label); },
      "-np.log(softmax(a))[np.maximum(b, 0)]");
  c.more(
      "attention, no queries", few, {none, {{2, 3}}, {{2, 4}}},
      [](const Graph&, const Nodes& x) { return attention(x[0], x[1], x[2]); }, "np.zeros((0, 4))");
}

void add_edges_of_places(Cases& c) {
  c.family("indexing");
  const In place{{}, V::places}, no_places{{0}, V::places}, table{{2, 3}, V::places};
  c.two(
      "take, a negative axis", few, batch, place, [](auto& x, auto& i) { return take(x, i, -2); },
      "a[:, np.clip(b, 0, 2)]");
  c.two(
      "take, of two axes", few, matrix, table, [](auto& x, auto& i) { return take(x, i); },
      "a[np.clip(b, 0, 3)]");
  c.two("take, none", few, matrix, no_places, [](auto& x, auto& i) { return take(x, i); }, "a[:0]");
  c.two(
      "take_along_axis, a negative axis", few, matrix, In{{3, 6}, V::places},
      [](auto& x, auto& i) { return take_along_axis(x, i, -2); },
      "np.take_along_axis(a, np.clip(b, 0, 3), 0)");
  c.two(
      "gather, one place", few, matrix, place, [](auto& x, auto& i) { return gather(x, {i}); },
      "a[np.clip(b, 0, 3)]");
  c.two(
      "dynamic_slice to nothing", few, matrix, place,
      [](auto& x, auto& i) { return dynamic_slice(x, {0, i}, {0, 3}); }, "a[:0, :3]");
  c.two(
      "dynamic_slice of a scalar", few, scalar, scalar,
      [](auto& x, auto&) { return dynamic_slice(x, {}, {}); }, "a.copy()");
  c.two(
      "dynamic_update_slice by nothing", few, matrix, In{{0, 2}},
      [](auto& x, auto& u) { return dynamic_update_slice(x, u, {1, 1}); }, "a.copy()");
  c.more(
      "scatter, add, no updates", few, {matrix, no_places, nothing},
      [](const Graph&, const Nodes& x) { return scatter(x[0], {x[1]}, x[2], Scatter::add); },
      "a.copy()");
  c.more(
      "scatter, add, by two places, the same ones too", few, {matrix, table, table, {{2, 3}}},
      [](const Graph&, const Nodes& x) { return scatter(x[0], {x[1], x[2]}, x[3], Scatter::add); },
      "scattered(a, zip(b.flat, c.flat), d.flat, 'add')");
  c.more(
      "scatter, add, each sum rounded", halves, {{{1}}, {{40}, V::places}, {{40}}},
      [](const Graph&, const Nodes& x) {
        return cast(scatter(x[0], {x[1] * 0}, x[2], Scatter::add), f32);
      },
      "running(np.concatenate([a, c])[None], dtype)[:, -1]");
  add_edges_of_order(c);
  add_edges_of_layers(c);
}

}  // namespace heddle::numpy
