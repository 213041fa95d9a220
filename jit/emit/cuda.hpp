// From loop kernels to CUDA C++ text: a self-contained translation unit for NVRTC, which has no
// headers. Pure; any thread.
//
// A kernel is a function `heddle_run_NAME` whose parameters are words of 8 bytes: the buffers'
// addresses, the static indices, the address of its status, the address of its stop word
// (devices/cuda_device.hpp). It may be launched with any number of groups, and with at least as
// many threads as launch_shape() returns.
#pragma once

#include <string>
#include <string_view>

#include "heddle/image.hpp"
#include "jit/emit/emit.hpp"
#include "jit/vector/target.hpp"

namespace heddle::jit {

/// Throws invalid_argument as check_unit().
[[nodiscard]] std::string emit_cuda(const CompileUnit& unit, const Target& target);
/// As emit_cuda(), in another C with groups of threads: `prelude` defines the names of types, of
/// functions and of CUDA that the kernels use.
[[nodiscard]] std::string emit_groups(const CompileUnit& unit, const Target& target,
                                      std::string_view prelude);

/// The numbers of groups and threads that the kernel can use.
[[nodiscard]] LaunchShape launch_shape(const Loop& kernel);

}  // namespace heddle::jit
