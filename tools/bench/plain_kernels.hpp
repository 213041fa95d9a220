// The loops of the kernel benchmarks as a C programmer writes them; compiled with -O3 -march=native
// whatever the build type. Any thread.
#pragma once

#include <cstddef>

namespace heddle::bench {

/// out[k] = relu(a[k] * b[k] + c[k]) * d[k]
void plain_elementwise(std::size_t count, const float* a, const float* b, const float* c,
                       const float* d, float* out);

/// c = a b, square, row-major: the naive nest i, j, k.
void plain_matmul(std::size_t n, const float* a, const float* b, float* c);

/// out[j, i] = x[i, j], square.
void plain_transpose(std::size_t n, const float* x, float* out);

}  // namespace heddle::bench
