// See programs.hpp.
#include "tools/bench/programs.hpp"

#include <cmath>
#include <string>
#include <utility>

namespace heddle::bench {

KernelSetup product_of(const BlasProduct& p) {
  std::string name = "matmul";
  if (p.transposed_a || p.transposed_b) name += '_';
  if (p.transposed_a) name += 't';
  if (p.transposed_b) name += p.transposed_a ? "t" : "nt";
  KernelSetup made{Program(name), {}, {}};
  const Tensor a = made.add("a", p.transposed_a ? Dims{p.terms, p.rows} : Dims{p.rows, p.terms});
  const Tensor b =
      made.add("b", p.transposed_b ? Dims{p.columns, p.terms} : Dims{p.terms, p.columns});
  const Tensor c = made.add("c", {p.rows, p.columns});
  const Index i, j, k;
  made.program << (c(i, j) = sum((p.transposed_a ? a(k, i) : a(i, k)) *
                                 (p.transposed_b ? b(j, k) : b(k, j))));
  return made;
}

KernelSetup with_bias_and_relu(std::int64_t n) {
  KernelSetup made{Program("matmul_bias_relu"), {}, {}};
  const Tensor a = made.add("a", {n, n}), b = made.add("b", {n, n}), bias = made.add("bias", {n}),
               c = made.add("c", {n, n});
  const Index i, j, k;
  made.program << (c(i, j) = sum(a(i, k) * b(k, j))) << (c(i, j) = relu(c(i, j) + bias(j)));
  return made;
}

KernelSetup convolution_of(std::int64_t from, std::int64_t to, std::int64_t height,
                           std::int64_t width) {
  constexpr std::int64_t filter = 3;
  KernelSetup made{Program("conv2d"), {}, {}};
  const Tensor x = made.add("x", {1, from, height + filter - 1, width + filter - 1}),
               w = made.add("w", {to, from, filter, filter}),
               y = made.add("y", {1, to, height, width});
  const Index n, o, i, j, c, r, s;
  made.program << (y(n, o, i, j) = sum(x(n, c, i + r, j + s) * w(o, c, r, s)));
  return made;
}

KernelSetup elementwise_of(std::int64_t count) {
  KernelSetup made{Program("elementwise"), {}, {}};
  const Tensor a = made.add("a", {count}), b = made.add("b", {count}), c = made.add("c", {count}),
               d = made.add("d", {count}), out = made.add("out", {count});
  const Index i;
  made.program << (out(i) = relu(a(i) * b(i) + c(i)) * d(i));
  return made;
}

KernelSetup gelu_of(std::int64_t count) {
  KernelSetup made{Program("gelu"), {}, {}};
  const Tensor x = made.add("x", {count}), out = made.add("out", {count});
  const Index i;
  made.program << (out(i) = x(i) * 0.5 * (1 + erf(x(i) * std::sqrt(0.5))));
  return made;
}

KernelSetup row_sums_of(std::int64_t rows, std::int64_t columns) {
  KernelSetup made{Program("row_sums"), {}, {}};
  const Tensor x = made.add("x", {rows, columns}), out = made.add("out", {rows});
  const Index i, j;
  made.program << (out(i) = sum(x(i, j)));
  return made;
}

KernelSetup column_sums_of(std::int64_t rows, std::int64_t columns) {
  KernelSetup made{Program("column_sums"), {}, {}};
  const Tensor x = made.add("x", {rows, columns}), out = made.add("out", {columns});
  const Index i, j;
  made.program << (out(j) = sum(x(i, j)));
  return made;
}

KernelSetup softmax_of(std::int64_t rows, std::int64_t columns) {
  KernelSetup made{Program("softmax"), {}, {}};
  const Tensor x = made.add("x", {rows, columns}), y = made.add("y", {rows, columns});
  const Tensor top("top", f32, {rows}), e("e", f32, {rows, columns}), total("total", f32, {rows});
  const Index i, j;
  made.program << (top(i) = maximum(x(i, j))) << (e(i, j) = exp(x(i, j) - top(i)))
               << (total(i) = sum(e(i, j))) << (y(i, j) = e(i, j) / total(i));
  return made;
}

KernelSetup layernorm_of(std::int64_t rows, std::int64_t columns) {
  KernelSetup made{Program("layernorm"), {}, {}};
  const Tensor x = made.add("x", {rows, columns}), gain = made.add("gain", {columns}),
               bias = made.add("bias", {columns}), y = made.add("y", {rows, columns});
  const Tensor mean("mean", f32, {rows}), spread("spread", f32, {rows});
  const Index i, j;
  const auto count = static_cast<double>(columns);
  made.program << (mean(i) = sum(x(i, j))) << (mean(i) = mean(i) / count)
               << (spread(i) = sum((x(i, j) - mean(i)) * (x(i, j) - mean(i))))
               << (spread(i) = rsqrt(spread(i) / count + 1e-5))
               << (y(i, j) = (x(i, j) - mean(i)) * spread(i) * gain(j) + bias(j));
  return made;
}

KernelSetup transpose_of(std::int64_t rows, std::int64_t columns) {
  KernelSetup made{Program("transpose"), {}, {}};
  const Tensor x = made.add("x", {rows, columns}), out = made.add("out", {columns, rows});
  const Index i, j;
  made.program << (out(j, i) = x(i, j));
  return made;
}

KernelSetup compiled_form(KernelSetup setup) {
  return {Program("compiled_" + setup.program.name()), std::move(setup.tensors),
          std::move(setup.arrays)};
}

}  // namespace heddle::bench
