// What rows of matrix products, convolutions and compiles have in common: the processor's peak, a
// program of ordinary size. One thread.
#pragma once

#include <cstdint>
#include <vector>

#include "tools/bench/compiled_kernel.hpp"

namespace heddle::bench {

/// So many multiply-adds, on registers alone and with operands from the first-level cache; nothing
/// where limits are not written for this processor.
[[nodiscard]] std::vector<Alternative> multiply_add_limits(std::int64_t multiply_adds);

/// Between two looks at the clock, of kernels with so many multiply-adds.
[[nodiscard]] std::size_t calls_for(std::int64_t multiply_adds);

/// A step of gradient descent of a network 64-64-10 on 128 images, as `heddle demo digits` does on
/// one device. The new weights have tensors of their own, so that each call does the same.
[[nodiscard]] KernelSetup training_step();

}  // namespace heddle::bench
