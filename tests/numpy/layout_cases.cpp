// Layout, and contractions.
#include "numpy/op_cases.hpp"

namespace heddle::numpy {

void add_layout(Cases& c) {
  c.family("layout");
  c.more(
      "broadcast_to", every, {row},
      [](const Graph&, const Nodes& x) { return broadcast_to(x[0], {4, 6}); },
      "np.broadcast_to(a, (4, 6))");
  c.more(
      "broadcast_in_dim", every, {row},
      [](const Graph&, const Nodes& x) { return broadcast_in_dim(x[0], {6, 3}, {0}); },
      "np.broadcast_to(a[:, None], (6, 3))");
  c.more(
      "reshape", every, {matrix},
      [](const Graph&, const Nodes& x) { return reshape(x[0], {3, -1, 2}); },
      "a.reshape(3, -1, 2)");
  c.more(
      "transpose", every, {batch},
      [](const Graph&, const Nodes& x) { return transpose(x[0], {2, 0, 1}); },
      "a.transpose(2, 0, 1)");
  c.more(
      "squeeze", every, {{{1, 6, 1}}}, [](const Graph&, const Nodes& x) { return squeeze(x[0]); },
      "np.squeeze(a)");
  c.more(
      "expand_dims", every, {matrix},
      [](const Graph&, const Nodes& x) { return expand_dims(x[0], {0, 2}); },
      "a[None, :, None, :]");
  c.more(
      "slice", every, {matrix},
      [](const Graph&, const Nodes& x) {
        return slice(x[0], {{1, 4}, {Range::open, Range::open, -2}});
      },
      "a[1:4, ::-2]");
  c.more(
      "reverse", every, {matrix}, [](const Graph&, const Nodes& x) { return reverse(x[0], {1}); },
      "a[:, ::-1]");
  c.more(
      "concatenate", every, {matrix, matrix},
      [](const Graph&, const Nodes& x) { return concatenate({x[0], x[1]}, 1); },
      "np.concatenate([a, b], 1)");
  c.more(
      "stack", every, {matrix, matrix},
      [](const Graph&, const Nodes& x) { return stack({x[0], x[1]}, 1); }, "np.stack([a, b], 1)");
  c.more(
      "split", every, {matrix}, [](const Graph&, const Nodes& x) { return split(x[0], 3, 1)[1]; },
      "np.split(a, 3, 1)[1]");
  c.more(
      "pad", numbers, {matrix},
      [](const Graph&, const Nodes& x) { return pad(x[0], 3, {{1, 2}, {0, 1}}); },
      "np.pad(a, ((1, 2), (0, 1)), constant_values=3)");
  c.one(
      "pad of truth values", booleans, matrix, [](auto& x) { return pad(x, true, {{1, 2}}); },
      "np.pad(a, ((1, 2), (0, 0)), constant_values=True)");
  c.more(
      "pad, negative and interior", numbers, {matrix},
      [](const Graph&, const Nodes& x) { return pad(x[0], 3, {{-1, 0}, {0, 0, 1}}); },
      "spread(a[1:], 3)");
  c.more(
      "iota", numbers, {matrix},
      [](const Graph& g, const Nodes& x) { return x[0] + g.iota(x[0].type(), 0); },
      "(a + np.arange(4)[:, None]).astype(a.dtype)");
  c.more(
      "tril", every, {matrix}, [](const Graph&, const Nodes& x) { return tril(x[0], 1); },
      "np.tril(a, 1)");
  c.more(
      "triu", every, {matrix}, [](const Graph&, const Nodes& x) { return triu(x[0], -1); },
      "np.triu(a, -1)");
}

void add_contractions(Cases& c) {
  c.family("contraction");
  c.more(
      "matmul", numbers, {batch, other},
      [](const Graph&, const Nodes& x) { return matmul(x[0], x[1]); }, "a @ b");
  c.more(
      "dot_general", numbers, {batch, other},
      [](const Graph&, const Nodes& x) {
        return dot_general(x[0], x[1],
                           {.contract_a = {2}, .contract_b = {1}, .batch_a = {0}, .batch_b = {0}});
      },
      "np.einsum('bij,bjk->bik', a, b)");
  c.more(
      "einsum, three operands", numbers, {batch, other, {{5}}},
      [](const Graph&, const Nodes& x) { return einsum("bij,bjk,k->ib", {x[0], x[1], x[2]}); },
      "np.einsum('bij,bjk,k->ib', a, b, c)");
  c.two(
      "matmul of truth values", booleans, batch, other,
      [](auto& a, auto& b) { return matmul(a, b); }, "np.int32(a) @ np.int32(b)");
  c.more(
      "conv, one axis", numbers, {{{2, 4, 9}}, {{6, 2, 3}}},
      [](const Graph&, const Nodes& x) {
        return conv(x[0], x[1], {.step = {2}, .padding = {{1, 2}}, .dilation = {2}, .groups = 2});
      },
      "conv(a, b, [2], [(1, 2)], [2], 2)");
  c.more(
      "conv, two axes", numbers, {{{2, 3, 6, 5}}, {{4, 3, 3, 2}}},
      [](const Graph&, const Nodes& x) { return conv(x[0], x[1]); },
      "conv(a, b, [1, 1], [(0, 0)] * 2, [1, 1], 1)");
  c.more(
      "conv, three axes", numbers, {{{1, 2, 4, 3, 4}}, {{2, 2, 2, 2, 2}}},
      [](const Graph&, const Nodes& x) { return conv(x[0], x[1]); },
      "conv(a, b, [1] * 3, [(0, 0)] * 3, [1] * 3, 1)");
  c.more(
      "conv_transposed", numbers, {{{2, 4, 5}}, {{4, 3, 3}}},
      [](const Graph&, const Nodes& x) { return conv_transposed(x[0], x[1], {.step = {2}}); },
      "conv_transposed(a, b, 2)");
}

}  // namespace heddle::numpy
