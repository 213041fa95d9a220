// Products that are not square or not plain: tall, wide, transposed, batched, with an epilogue, as
// a convolution, and in a whole training step.
#include "tools/bench/kernel_products.hpp"

#include <memory>
#include <string>

#include "tools/bench/cases.hpp"
#include "tools/bench/limit_kernels.hpp"
#include "tools/bench/programs.hpp"
#include "tools/bench/rival_openblas.hpp"

namespace heddle::bench {
namespace {

using MakeSetup = std::function<KernelSetup()>;

KernelSetup batched(const BlasProduct& p) {
  KernelSetup made{Program("matmul"), {}, {}};
  const Tensor a = made.add("a", {p.batch, p.rows, p.terms}),
               b = made.add("b", {p.batch, p.terms, p.columns}),
               c = made.add("c", {p.batch, p.rows, p.columns});
  const Index n, i, j, k;
  made.program << (c(n, i, j) = sum(a(n, i, k) * b(n, k, j)));
  return made;
}

constexpr std::int64_t channels = 64;
constexpr std::int64_t image = 56;
constexpr std::int64_t filter = 3;

Alternative plain_product(int n) {
  Alternative plain = by_program("heddle, plain product", [n] { return product_of({n, n, n}); });
  plain.same_result = false;
  return plain;
}

void add_product_rows(std::vector<Row>& rows, const char* workload, std::int64_t multiply_adds,
                      const MakeSetup& make, std::vector<Alternative> others) {
  add_kernel_rows(rows, {"products", workload, calls_for(multiply_adds), make, std::move(others)});
}

void add_product_row(std::vector<Row>& rows, const char* workload, const BlasProduct& p,
                     const MakeSetup& make, std::vector<Alternative> others = {}) {
  others.push_back(openblas(p));
  add_product_rows(rows, workload, std::int64_t{p.rows} * p.columns * p.terms * p.batch, make,
                   std::move(others));
}

template <void (*run)(std::size_t)>
Alternative multiply_adds(const char* name, std::size_t rounds) {
  const auto prepare = [rounds](const KernelSetup&) {
    return Prepared{[rounds](std::size_t count) {
      const auto start = Clock::now();
      run(rounds * count);
      return ns_between(start, Clock::now()) / static_cast<double>(count);
    }};
  };
  return {name, Kind::limit, prepare, false};
}

}  // namespace

KernelSetup training_step() {
  constexpr std::int64_t images = 128, inputs = 64, hidden = 64, classes = 10;
  constexpr double rate = 0.1 / images;
  KernelSetup made{Program("training_step"), {}, {}};
  const Tensor x = made.add("x", {images, inputs}), y = made.add("y", {images, classes}),
               w1 = made.add("w1", {inputs, hidden}), b1 = made.add("b1", {hidden}),
               w2 = made.add("w2", {hidden, classes}), b2 = made.add("b2", {classes}),
               new_b1 = made.add("new_b1", {hidden}),
               new_w2 = made.add("new_w2", {hidden, classes}),
               new_b2 = made.add("new_b2", {classes}),
               new_w1 = made.add("new_w1", {inputs, hidden});
  const Tensor h("h", f32, {images, hidden}), z("z", f32, {images, classes}),
      top("top", f32, {images}), total("total", f32, {images}), dz("dz", f32, {images, classes}),
      dh("dh", f32, {images, hidden});
  const Index n, i, j, c;
  made.program << (h(n, j) = sum(x(n, i) * w1(i, j))) << (h(n, j) = relu(h(n, j) + b1(j)))
               << (z(n, c) = sum(h(n, j) * w2(j, c))) << (z(n, c) += b2(c))
               << (top(n) = maximum(z(n, c))) << (z(n, c) = exp(z(n, c) - top(n)))
               << (total(n) = sum(z(n, c))) << (dz(n, c) = z(n, c) / total(n) - y(n, c))
               << (dh(n, j) = sum(dz(n, c) * w2(j, c)))
               << (dh(n, j) = where(h(n, j) > 0, dh(n, j), 0))
               << (new_w2(j, c) = sum(h(n, j) * dz(n, c)))
               << (new_w2(j, c) = w2(j, c) - rate * new_w2(j, c)) << (new_b2(c) = sum(dz(n, c)))
               << (new_b2(c) = b2(c) - rate * new_b2(c)) << (new_b1(j) = sum(dh(n, j)))
               << (new_b1(j) = b1(j) - rate * new_b1(j)) << (new_w1(i, j) = sum(x(n, i) * dh(n, j)))
               << (new_w1(i, j) = w1(i, j) - rate * new_w1(i, j));
  return made;
}

std::vector<Alternative> multiply_add_limits(std::int64_t count) {
  if (!limits_are_written()) return {};
  const std::size_t rounds = static_cast<std::size_t>(count) / limit_multiply_adds_per_round;
  return {multiply_adds<limit_multiply_adds>(multiply_add_peak, rounds),
          multiply_adds<limit_multiply_adds_from_cache>("multiply-adds from L1", rounds)};
}

std::size_t calls_for(std::int64_t multiply_adds) {
  return static_cast<std::size_t>((std::int64_t{4} << 20) / multiply_adds + 1);
}

void add_product_rows(std::vector<Row>& rows) {
  for (const auto& [name, p] : {
           std::pair{"tall, 4096x64 by 64x64", BlasProduct{4096, 64, 64}},
           std::pair{"wide, 64x64 by 64x4096", BlasProduct{64, 4096, 64}},
           std::pair{"flat, 64x4096 by 4096x64", BlasProduct{64, 64, 4096}},
       })
    add_product_row(rows, name, p, [shape = p] { return product_of(shape); });
  constexpr int n = 512;
  for (const auto& [name, p] : {
           std::pair{"transposed a, 512x512", BlasProduct{n, n, n, true, false}},
           std::pair{"transposed b, 512x512", BlasProduct{n, n, n, false, true}},
           std::pair{"both transposed, 512x512", BlasProduct{n, n, n, true, true}},
       })
    add_product_row(rows, name, p, [shape = p] { return product_of(shape); }, {plain_product(n)});
  const BlasProduct small{16, 16, 16, false, false, 256};
  add_product_row(rows, "batched, 256 of 16x16", small, [small] { return batched(small); });
  add_product_rows(rows, "bias and relu, 512x512", std::int64_t{n} * n * n,
                   [] { return with_bias_and_relu(n); }, {plain_product(n)});
  const std::int64_t convolved = image * image * channels * channels * filter * filter;
  add_product_rows(
      rows, "conv2d 3x3, 64 to 64 channels, 56x56", convolved,
      [] { return convolution_of(channels, channels, image, image); },
      multiply_add_limits(convolved));
  add_product_rows(rows, "training step, 64-64-10 on 128 images", 128 * 64 * 64, training_step,
                   {by_program("heddle, unscheduled", training_step, Schedule::off)});
}

}  // namespace heddle::bench
