// PoCL, an implementation of OpenCL for processors that shares nothing with heddle: builds OpenCL C
// and runs its kernels. libOpenCL.so.1 is opened at run time, so no build needs OpenCL. One thread.
#pragma once

#include <cstdint>
#include <memory>
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

class Pocl {
 public:
  /// The process's PoCL. Throws unavailable where libOpenCL or PoCL is missing.
  [[nodiscard]] static Pocl& opened();
  ~Pocl();
  Pocl(const Pocl&) = delete;
  Pocl& operator=(const Pocl&) = delete;

  /// The versions of PoCL and of its device.
  [[nodiscard]] const std::string& version() const noexcept { return version_; }
  /// Builds the text and runs the launches in order; the code in the kernels' status. Throws
  /// compile_failed with the compiler's messages, and device_failed.
  std::int32_t run(const std::string& text, std::span<const Launch> launches);

 private:
  struct Api;
  struct Handles;
  Pocl();

  std::unique_ptr<Api> api_;
  std::unique_ptr<Handles> handles_;
  std::string version_;
};

}  // namespace heddle::jit::testing
