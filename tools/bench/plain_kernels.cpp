// See plain_kernels.hpp.
#include "tools/bench/plain_kernels.hpp"

#include <algorithm>
#include <functional>

namespace heddle::bench {

void plain_elementwise(std::size_t count, const float* __restrict a, const float* __restrict b,
                       const float* __restrict c, const float* __restrict d,
                       float* __restrict out) {
  for (std::size_t k = 0; k < count; ++k) {
    const float x = a[k] * b[k] + c[k];
    out[k] = (x > 0 ? x : 0) * d[k];
  }
}

void plain_matmul(std::size_t n, const float* __restrict a, const float* __restrict b,
                  float* __restrict c) {
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < n; ++j) {
      c[i * n + j] = 0;
      for (std::size_t k = 0; k < n; ++k) c[i * n + j] += a[i * n + k] * b[k * n + j];
    }
  }
}

void plain_transpose(std::size_t n, const float* __restrict x, float* __restrict out) {
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < n; ++j) out[j * n + i] = x[i * n + j];
  }
}

void plain_gather(std::size_t count, std::size_t width, const float* __restrict table,
                  const std::int64_t* __restrict rows, float* __restrict out) {
  for (std::size_t k = 0; k < count; ++k) {
    const float* const from = table + static_cast<std::size_t>(rows[k]) * width;
    for (std::size_t j = 0; j < width; ++j) out[k * width + j] = from[j];
  }
}

void plain_scatter_add(std::size_t sums, std::size_t count, std::size_t width,
                       const float* __restrict x, const std::int64_t* __restrict rows,
                       const float* __restrict updates, float* __restrict out) {
  for (std::size_t k = 0; k < sums * width; ++k) out[k] = x[k];
  for (std::size_t k = 0; k < count; ++k) {
    float* const to = out + static_cast<std::size_t>(rows[k]) * width;
    for (std::size_t j = 0; j < width; ++j) to[j] += updates[k * width + j];
  }
}

void plain_sort(std::size_t count, const float* x, float* out) {
  std::copy_n(x, count, out);
  std::stable_sort(out, out + count);
}

void plain_top(std::size_t size, std::size_t count, const float* x, float* out) {
  std::partial_sort_copy(x, x + size, out, out + count, std::greater<>());
}

}  // namespace heddle::bench
