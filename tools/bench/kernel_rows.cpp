// Sums, softmax and layernorm over rows of a matrix larger than the caches, and its transpose:
// memory bandwidth is the limit.
#include <cstdint>

#include "tools/bench/cases.hpp"
#include "tools/bench/limit_kernels.hpp"
#include "tools/bench/plain_kernels.hpp"
#include "tools/bench/programs.hpp"

namespace heddle::bench {
namespace {

constexpr std::int64_t row_side = 4096;
constexpr auto row_size = static_cast<std::size_t>(row_side);

void limit_of_row_sums(const KernelSetup& made) {
  limit_row_sums(row_size, row_size, made.data(0), made.data(1));
}
void limit_of_column_sums(const KernelSetup& made) {
  limit_column_sums(row_size, row_size, made.data(0), made.data(1));
}
void limit_of_softmax(const KernelSetup& made) {
  limit_softmax(row_size, row_size, made.data(0), made.data(1));
}
void limit_of_layernorm(const KernelSetup& made) {
  limit_layernorm(row_size, row_size, made.data(0), made.data(1), made.data(2), made.data(3));
}
void limit_of_transpose(const KernelSetup& made) {
  limit_transpose(row_size, made.data(0), made.data(1));
}
void plain_turned(const KernelSetup& made) {
  plain_transpose(row_size, made.data(0), made.data(1));
}
void copy(const KernelSetup& made) { limit_copy(row_size * row_size, made.data(0), made.data(1)); }

/// Rows against a hand-written limit.
void add_rows(std::vector<Row>& rows, const char* name, const char* workload,
              KernelSetup (*make)(std::int64_t, std::int64_t), void (*limit)(const KernelSetup&)) {
  add_kernel_rows(rows, {name,
                         workload,
                         1,
                         [make] { return make(row_side, row_side); },
                         {in_process(hand_written, Kind::limit, limit)}});
}

}  // namespace

void add_sum_rows(std::vector<Row>& rows) {
  add_rows(rows, "sums", "row sums, 4096x4096", row_sums_of, limit_of_row_sums);
  add_rows(rows, "sums", "column sums, 4096x4096", column_sums_of, limit_of_column_sums);
}

void add_softmax_rows(std::vector<Row>& rows) {
  add_rows(rows, "softmax", "softmax, 4096x4096", softmax_of, limit_of_softmax);
}

void add_layernorm_rows(std::vector<Row>& rows) {
  add_rows(rows, "layernorm", "layernorm, 4096x4096", layernorm_of, limit_of_layernorm);
}

void add_transpose_rows(std::vector<Row>& rows) {
  Alternative copying = in_process("copy", Kind::limit, copy);
  copying.same_result = false;
  add_kernel_rows(rows, {"transpose",
                         "transpose, 4096x4096",
                         1,
                         [] { return transpose_of(row_side, row_side); },
                         {in_process("plain C++ loop", Kind::rival, plain_turned), copying,
                          in_process(hand_written, Kind::limit, limit_of_transpose)}});
}

}  // namespace heddle::bench
