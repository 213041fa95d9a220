// PoCL, an implementation of OpenCL for processors that shares nothing with heddle: builds OpenCL C
// and runs its kernels. libOpenCL.so.1 is opened at run time, so no build needs OpenCL. One thread.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "heddle/host_array.hpp"
#include "heddle/image.hpp"

namespace heddle::jit::testing {

/// A launch of a kernel that emit_opencl() wrote.
struct Launch {
  std::string kernel;
  std::vector<HostArray> buffers;  ///< hold the results afterwards
  std::vector<std::int64_t> statics;
  LaunchShape shape;
  bool asks_to_stop = false;  ///< the value of the stop word
};

/// Opens PoCL, once per process. Throws unavailable where libOpenCL or PoCL is missing.
void open_pocl();
/// Builds the text and runs the launches in order; returns the code in the kernels' status. Throws
/// as open_pocl(), compile_failed with the compiler's messages, and device_failed.
std::int32_t run_on_pocl(const std::string& text, std::span<const Launch> launches);

}  // namespace heddle::jit::testing
