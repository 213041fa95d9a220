// The programs of kernel rows, by statements. rival_torch.py and rival_jax.py have the same
// programs by name.
#pragma once

#include <cstdint>

#include "tools/bench/compiled_kernel.hpp"
#include "tools/bench/rival_openblas.hpp"

namespace heddle::bench {

/// c = a b, either factor transposed in memory; not batched.
[[nodiscard]] KernelSetup product_of(const BlasProduct& p);
/// relu(a b + bias), n x n.
[[nodiscard]] KernelSetup with_bias_and_relu(std::int64_t n);
/// A convolution with filters of 3x3; `height` and `width` are the extents of the result.
[[nodiscard]] KernelSetup convolution_of(std::int64_t from, std::int64_t to, std::int64_t height,
                                         std::int64_t width);
/// relu(a * b + c) * d
[[nodiscard]] KernelSetup elementwise_of(std::int64_t count);
/// x (1 + erf(x / sqrt(2))) / 2
[[nodiscard]] KernelSetup gelu_of(std::int64_t count);
/// Over the rows of a matrix.
[[nodiscard]] KernelSetup row_sums_of(std::int64_t rows, std::int64_t columns);
[[nodiscard]] KernelSetup column_sums_of(std::int64_t rows, std::int64_t columns);
[[nodiscard]] KernelSetup softmax_of(std::int64_t rows, std::int64_t columns);
[[nodiscard]] KernelSetup layernorm_of(std::int64_t rows, std::int64_t columns);
[[nodiscard]] KernelSetup transpose_of(std::int64_t rows, std::int64_t columns);

/// The same arrays for the compiled version of the program in a framework.
[[nodiscard]] KernelSetup compiled_form(KernelSetup setup);

}  // namespace heddle::bench
