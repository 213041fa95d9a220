// The loops of the kernel benchmarks as a C programmer writes them; compiled with -O3 -march=native
// whatever the build type. Any thread.
#pragma once

#include <cstddef>
#include <cstdint>

namespace heddle::bench {

/// out[k] = relu(a[k] * b[k] + c[k]) * d[k]
void plain_elementwise(std::size_t count, const float* a, const float* b, const float* c,
                       const float* d, float* out);

/// c = a b, square, row-major: the naive nest i, j, k.
void plain_matmul(std::size_t n, const float* a, const float* b, float* c);

/// out[j, i] = x[i, j], square.
void plain_transpose(std::size_t n, const float* x, float* out);

/// out[k, j] = table[rows[k], j]
void plain_gather(std::size_t count, std::size_t width, const float* table,
                  const std::int64_t* rows, float* out);

/// out = x; then out[rows[k], j] += updates[k, j] in the order of k.
void plain_scatter_add(std::size_t sums, std::size_t count, std::size_t width, const float* x,
                       const std::int64_t* rows, const float* updates, float* out);

/// out = x in rising order, by std::stable_sort.
void plain_sort(std::size_t count, const float* x, float* out);

/// The `count` largest of `size`, the largest first, by std::partial_sort_copy.
void plain_top(std::size_t size, std::size_t count, const float* x, float* out);

}  // namespace heddle::bench
