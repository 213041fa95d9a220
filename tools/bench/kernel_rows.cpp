// Sums, softmax and layernorm over rows of a matrix larger than the caches, and its transpose: what
// memory allows is the limit.
#include <cstdint>

#include "tools/bench/cases.hpp"
#include "tools/bench/kernel_rows.hpp"
#include "tools/bench/limit_kernels.hpp"
#include "tools/bench/plain_kernels.hpp"

namespace heddle::bench {
namespace {

constexpr std::int64_t n = 4096;
constexpr auto side = static_cast<std::size_t>(n);

KernelSetup row_sums() {
  KernelSetup made{Program("row_sums"), {}, {}};
  const Tensor x = made.add("x", {n, n}), out = made.add("out", {n});
  const Index i, j;
  made.program << (out(i) = sum(x(i, j)));
  return made;
}

KernelSetup column_sums() {
  KernelSetup made{Program("column_sums"), {}, {}};
  const Tensor x = made.add("x", {n, n}), out = made.add("out", {n});
  const Index i, j;
  made.program << (out(j) = sum(x(i, j)));
  return made;
}

void limit_of_row_sums(const KernelSetup& made) {
  limit_row_sums(side, side, made.data(0), made.data(1));
}
void limit_of_column_sums(const KernelSetup& made) {
  limit_column_sums(side, side, made.data(0), made.data(1));
}
void limit_of_softmax(const KernelSetup& made) {
  limit_softmax(side, side, made.data(0), made.data(1));
}
void limit_of_layernorm(const KernelSetup& made) {
  limit_layernorm(side, side, made.data(0), made.data(1), made.data(2), made.data(3));
}
void limit_of_transpose(const KernelSetup& made) {
  limit_transpose(side, made.data(0), made.data(1));
}
void plain(const KernelSetup& made) { plain_transpose(side, made.data(0), made.data(1)); }
void copy(const KernelSetup& made) { limit_copy(side * side, made.data(0), made.data(1)); }

/// Rows against a hand-written limit.
void add_rows(std::vector<Row>& rows, const char* name, const char* workload, KernelSetup (*make)(),
              void (*limit)(const KernelSetup&)) {
  add_kernel_rows(rows, {name, workload, 1, make, {in_process(hand_written, Kind::limit, limit)}});
}

}  // namespace

KernelSetup softmax_of_rows() {
  KernelSetup made{Program("softmax"), {}, {}};
  const Tensor x = made.add("x", {n, n}), y = made.add("y", {n, n});
  const Tensor top("top", f32, {n}), e("e", f32, {n, n}), total("total", f32, {n});
  const Index i, j;
  made.program << (top(i) = maximum(x(i, j))) << (e(i, j) = exp(x(i, j) - top(i)))
               << (total(i) = sum(e(i, j))) << (y(i, j) = e(i, j) / total(i));
  return made;
}

KernelSetup layernorm_of_rows() {
  KernelSetup made{Program("layernorm"), {}, {}};
  const Tensor x = made.add("x", {n, n}), gain = made.add("gain", {n}),
               bias = made.add("bias", {n}), y = made.add("y", {n, n});
  const Tensor mean("mean", f32, {n}), spread("spread", f32, {n});
  const Index i, j;
  made.program << (mean(i) = sum(x(i, j))) << (mean(i) = mean(i) / double{n})
               << (spread(i) = sum((x(i, j) - mean(i)) * (x(i, j) - mean(i))))
               << (spread(i) = rsqrt(spread(i) / double{n} + 1e-5))
               << (y(i, j) = (x(i, j) - mean(i)) * spread(i) * gain(j) + bias(j));
  return made;
}

KernelSetup transpose_of_rows() {
  KernelSetup made{Program("transpose"), {}, {}};
  const Tensor x = made.add("x", {n, n}), out = made.add("out", {n, n});
  const Index i, j;
  made.program << (out(j, i) = x(i, j));
  return made;
}

void add_sum_rows(std::vector<Row>& rows) {
  add_rows(rows, "sums", "row sums, 4096x4096", row_sums, limit_of_row_sums);
  add_rows(rows, "sums", "column sums, 4096x4096", column_sums, limit_of_column_sums);
}

void add_softmax_rows(std::vector<Row>& rows) {
  add_rows(rows, "softmax", "softmax, 4096x4096", softmax_of_rows, limit_of_softmax);
}

void add_layernorm_rows(std::vector<Row>& rows) {
  add_rows(rows, "layernorm", "layernorm, 4096x4096", layernorm_of_rows, limit_of_layernorm);
}

void add_transpose_rows(std::vector<Row>& rows) {
  Alternative copying = in_process("copy", Kind::limit, copy);
  copying.same_result = false;
  add_kernel_rows(rows, {"transpose",
                         "transpose, 4096x4096",
                         1,
                         transpose_of_rows,
                         {in_process("plain C++ loop", Kind::rival, plain), copying,
                          in_process(hand_written, Kind::limit, limit_of_transpose)}});
}

}  // namespace heddle::bench
