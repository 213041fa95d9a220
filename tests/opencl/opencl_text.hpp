// Kernels of groups of threads as OpenCL C 1.2: the text that NVRTC gets (emit/cuda.hpp), after a
// prelude that defines CUDA's names. Pure; any thread.
#pragma once

#include <string>

#include "jit/emit/emit.hpp"
#include "jit/vector/target.hpp"

namespace heddle::jit::testing {

/// The kernels' parameters are those of emit_cuda(); pointers point to global memory.
[[nodiscard]] std::string emit_opencl(const CompileUnit& unit, const Target& target);

}  // namespace heddle::jit::testing
