// Shared code of the rows of matrix products, convolutions and compiles: the processor's peak, a
// program of ordinary size. One thread.
#pragma once

#include <cstdint>
#include <vector>

#include "tools/bench/compiled_kernel.hpp"

namespace heddle::bench {

/// The given number of multiply-adds, on registers alone and with operands from the first-level
/// cache; empty where limits are not written for this processor.
[[nodiscard]] std::vector<Alternative> multiply_add_limits(std::int64_t multiply_adds);

/// Calls between two readings of the clock, for kernels with the given number of multiply-adds.
[[nodiscard]] std::size_t calls_for(std::int64_t multiply_adds);

/// A step of gradient descent of a network 64-64-10 on 128 images, as `heddle demo digits` does on
/// one device. The new weights have their own tensors, so that each call computes the same values.
[[nodiscard]] KernelSetup training_step();

}  // namespace heddle::bench
