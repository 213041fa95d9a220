// Programs over the rows of a matrix of 4096x4096, by statements.
#pragma once

#include "tools/bench/compiled_kernel.hpp"

namespace heddle::bench {

[[nodiscard]] KernelSetup softmax_of_rows();
[[nodiscard]] KernelSetup layernorm_of_rows();
[[nodiscard]] KernelSetup transpose_of_rows();

}  // namespace heddle::bench
