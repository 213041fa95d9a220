// See plain_kernels.hpp.
#include "tools/bench/plain_kernels.hpp"

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

}  // namespace heddle::bench
