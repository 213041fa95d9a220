// See golden_programs.hpp.
#include "golden_programs.hpp"

namespace heddle::jit {
namespace {

// Each function describes one program; sizes are small to keep the files readable.

Program matmul() {
  const Tensor a("a", f32, {64, 128}), b("b", f32, {128, 32}), c("c", f32, {64, 32});
  Index i, j, k;
  Program p("matmul");
  p << (c(i, j) += a(i, k) * b(k, j));
  return p;
}

Program transpose() {
  const Tensor x("x", f32, {64, 32}), bias("bias", f32, {64}), y("y", f32, {32, 64});
  Index i, j;
  Program p("transpose");
  p << (y(i, j) = x(j, i) + bias(j));
  return p;
}

Program bias_relu() {
  const Tensor x("x", f32, {8, 4}), bias("bias", f32, {4}), sum("sum", f32, {8, 4}),
      y("y", f32, {8, 4});
  Index i, j;
  Program p("bias_relu");
  p.comment("add the bias, then clamp");
  p << (sum(i, j) = x(i, j) + bias(j)) << (y(i, j) = relu(sum(i, j)));
  return p;
}

Program softmax_rows() {
  const Tensor x("x", f32, {4, 10}), top("top", f32, {4}), e("e", f32, {4, 10}),
      total("total", f32, {4}), y("y", f32, {4, 10});
  Index i, j;
  Program p("softmax_rows");
  p << (top(i) = maximum(x(i, j))) << (e(i, j) = exp(x(i, j) - top(i))) << (total(i) = sum(e(i, j)))
    << (y(i, j) = e(i, j) / total(i));
  return p;
}

/// The program of docs/a-program-through-jit.md.
Program dense_relu() {
  const Tensor x("x", f32, {16, 64}), w("w", f32, {64, 32}), bias("bias", f32, {32}),
      h("h", f32, {16, 32}), y("y", f32, {16, 32});
  Index i, j, k;
  Program p("dense_relu");
  p << (h(i, j) = sum(x(i, k) * w(k, j))) << (y(i, j) = relu(h(i, j) + bias(j)));
  return p;
}

Program convolution() {
  const Tensor x("x", f32, {19}), w("w", f32, {3}), y("y", f32, {9});
  Index i, k;
  Program p("convolution");
  p << (y(i) = sum(x(2 * i + k) * w(k)));
  return p;
}

Program merge_add() {
  const Tensor g("g", f32, {16});
  Index i;
  Program p("merge_add");
  p << (g(i) += merge(g)(i));
  return p;
}

Program static_slice() {
  const Tensor data("data", u8, {100, 8}), batch("batch", f32, {4, 8}), mean("mean", f32, {8});
  const StaticIndex step("step", 25), shift("shift");
  Index i, j;
  Program p("static_slice");
  p << (batch(i, j) = cast(data(4 * Subscript(step) + i, j), f32) / 255.0)
    << (mean(j) = sum(batch(i, j))) << (mean(j) += cast(data(shift - 1, j), f32));
  return p;
}

Program half_precision() {
  const Tensor a("a", f16, {4, 6}), h("h", f16, {4, 6}), r("r", f16, {4}), s("s", bf16, {4});
  Index i, k;
  Program p("half_precision");
  p << (h(i, k) = a(i, k) * a(i, k)) << (r(i) = sum(h(i, k))) << (s(i) += r(i) + 1);
  return p;
}

Program reductions() {
  const Tensor x("x", i32, {3, 5}), total("total", i32, {3}), product_of("product", i32, {3}),
      high("high", i32, {3}), low("low", i32, {3}), every("every", bool_, {3}),
      some("some", bool_, {3}), inplace("inplace", i32, {3}), spread("spread", i32, {7});
  Index i, k;
  Program p("reductions");
  p << (total(i) = sum(x(i, k))) << (product_of(i) = product(x(i, k)))
    << (high(i) = maximum(x(i, k))) << (low(i) = minimum(x(i, k))) << (every(i) = all(x(i, k) > 0))
    << (some(i) = any(x(i, k) > 0));
  p << (inplace(i) -= x(i, k)) << (spread(i + k) += x(i, k));
  return p;
}

Program virtual_chain() {
  const Tensor a("a", f64, {6}), half("half", f64, {6}), shifted("shifted", f64, {6}),
      flipped("flipped", f64, {6}), out("out", f64, {6});
  Index i;
  Program p("virtual_chain");
  p << (half(i) = 0.5 * a(i)) << (shifted(i) = half(i) + 3)
    << (flipped(i) = shifted(5 - Subscript(i))) << (out(i) = flipped(i) * 1 - 0);
  return p;
}

/// Several statements assign one virtual tensor.
Program virtual_layer() {
  const Tensor x("x", f32, {8, 3}), w("w", f32, {3, 4}), b("b", f32, {4}), h("h", f32, {8, 4}),
      s("s", f32, {8}), y("y", f32, {8, 4});
  Index i, j, k;
  Program p("virtual_layer");
  p << (h(i, j) = b(j)) << (h(i, j) += x(i, k) * w(k, j)) << (h(i, j) = relu(h(i, j)))
    << (y(i, j) = s(i) * h(i, j));
  return p;
}

Program local_scratch() {
  const Tensor x("x", f32, {5}), t("t", f32, {5}), u("u", f32, {5}), y("y", f32, {5, 5});
  t.set_mode(MemoryMode::never_virtual);
  Index i, j;
  Program p("local_scratch");
  p << (t(i) = exp(x(i))) << (u(i) = 2.0) << (u(i) *= t(i))
    << (y(i, j) = u(i) * t(j) + t(i) * u(j));
  return p;
}

Program scalars() {
  const Tensor x("x", f32, {7}), one("one", f32, {1}), norm("norm", f32, {}), eps("eps", f32, {}),
      count("count", i64, {});
  Index i;
  Program p("scalars");
  p << (eps() = 0.125) << (norm() = sum(x(i) * x(i))) << (norm() = sqrt(norm() + eps()))
    << (one(0) = recip(norm())) << (count() += 1);
  return p;
}

Program zero_size() {
  const Tensor none("none", f32, {0, 3}), empty_sum("empty_sum", f32, {3}),
      copy("copy", f32, {0, 3}), lowest("lowest", f32, {3});
  Index i, j;
  Program p("zero_size");
  p << (copy(i, j) = none(i, j)) << (empty_sum(j) = sum(none(i, j)))
    << (lowest(j) = minimum(none(i, j)));
  return p;
}

Program shared_parts() {
  const Tensor x("x", f32, {4}), y("y", f32, {4});
  Index i;
  Program p("shared_parts");
  Expr e = x(i) + 1.0;
  for (int level = 0; level < 4; ++level) e = e * e;
  p << (y(i) = e);
  return p;
}

constexpr Golden programs[] = {{"matmul", matmul},
                               {"bias_relu", bias_relu},
                               {"softmax_rows", softmax_rows},
                               {"dense_relu", dense_relu},
                               {"convolution", convolution},
                               {"merge_add", merge_add},
                               {"static_slice", static_slice},
                               {"half_precision", half_precision},
                               {"reductions", reductions},
                               {"virtual_chain", virtual_chain},
                               {"virtual_layer", virtual_layer},
                               {"local_scratch", local_scratch},
                               {"scalars", scalars},
                               {"zero_size", zero_size},
                               {"shared_parts", shared_parts},
                               {"transpose", transpose}};

}  // namespace

std::span<const Golden> golden_programs() { return programs; }

}  // namespace heddle::jit
