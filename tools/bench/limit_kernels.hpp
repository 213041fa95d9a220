// Hand-written loops: the limits of the kernel benchmarks, in AVX-512 intrinsics where the build
// machine has them, else as plain loops. Compiled with -O3 -march=native whatever the build type.
// Arrays are row-major and aligned to 64 bytes; counts and columns are multiples of 64, rows of 4:
// edges are not measured. Any thread.
#pragma once

#include <cstddef>
#include <span>

namespace heddle::bench {

/// The given number of rounds of independent f32 multiply-adds, on registers alone: the peak of one
/// processor. Does nothing where limits are not written.
void limit_multiply_adds(std::size_t rounds);
inline constexpr std::size_t limit_multiply_adds_per_round = 24 * 16;
/// The same number of multiply-adds, with operands loaded from the first-level cache as in a matrix
/// product: six loads for eight multiply-adds. Processors lower their clock for this mix.
void limit_multiply_adds_from_cache(std::size_t rounds);

/// The name of limit_multiply_adds() in the table.
inline constexpr const char* multiply_add_peak = "multiply-add peak";
/// Whether limits are written for this processor; if not, the functions are plain loops, and no
/// limits.
[[nodiscard]] bool limits_are_written() noexcept;

/// out[k] = relu(a[k] * b[k] + c[k]) * d[k]; `stream`: past the caches.
void limit_elementwise(std::size_t count, const float* a, const float* b, const float* c,
                       const float* d, float* out, bool stream);
/// out[i] = sum over j of x[i, j]
void limit_row_sums(std::size_t rows, std::size_t columns, const float* x, float* out);
/// out[j] = sum over i of x[i, j]
void limit_column_sums(std::size_t rows, std::size_t columns, const float* x, float* out);
/// y[i, :] = exp(x[i, :] - max) / sum of those
void limit_softmax(std::size_t rows, std::size_t columns, const float* x, float* y);
/// y[i, :] = (x[i, :] - mean) / sqrt(variance + 1e-5) * gain + bias
void limit_layernorm(std::size_t rows, std::size_t columns, const float* x, const float* gain,
                     const float* bias, float* y);
/// out[j, i] = x[i, j], past the caches; `side` rows and columns.
void limit_transpose(std::size_t side, const float* x, float* out);
/// out = x, past the caches: the limit of a transpose.
void limit_copy(std::size_t count, const float* x, float* out);

/// to[k] += from[k]
void limit_add(std::size_t count, const float* from, float* to);
/// x[k] = x[k] * a + b
void limit_update(std::size_t count, float a, float b, float* x);
/// Each array receives the sum of all arrays, added in their order.
void limit_all_reduce(std::size_t count, std::span<float* const> arrays);

}  // namespace heddle::bench
