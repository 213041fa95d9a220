// Generated code, called as a function, against a plain loop: measures the code, not its
// scheduling. One thread.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "heddle/backend.hpp"
#include "heddle/kernel.h"
#include "tools/bench/harness.hpp"

namespace heddle::bench {

/// A program over tensors and memory for each; the last tensor is the result.
struct KernelSetup {
  Program program;
  std::vector<Tensor> tensors;
  std::vector<HostArray> arrays;

  /// Declares a tensor and gives it memory, uniform in [0, 1), the same each time.
  Tensor add(const std::string& label, const Dims& dims);
  [[nodiscard]] float* data(std::size_t k) const { return arrays[k].values<float>().data(); }
};

/// The kernel of a program, compiled and bound to the memory of a setup, which must outlive it.
class CompiledKernel {
 public:
  /// Uses the compiler of `backend`. Throws Error; failed_precondition when the kernel needs memory
  /// for a tensor that the setup lacks.
  CompiledKernel(const std::string& backend, const KernelSetup& setup);
  CompiledKernel(const CompiledKernel&) = delete;
  CompiledKernel& operator=(const CompiledKernel&) = delete;

  void operator()() const { function_(&arguments_); }

 private:
  Code code_;
  std::vector<heddle_kernel_buffer> buffers_;
  heddle_kernel_status status_{};
  heddle_kernel_args arguments_{};
  heddle_kernel_function function_ = nullptr;
};

/// Names of the backends, one per compiler, that can be used here.
[[nodiscard]] std::vector<std::string> compiling_backends();

/// A case of `calls` calls between two looks at the clock. The setup is made when the case first
/// runs and lives as long as the case. Both results are compared first: throws internal when they
/// differ by more than rounding.
[[nodiscard]] Case kernel_case(const std::string& name, const std::string& workload,
                               const std::string& backend, std::size_t calls,
                               const std::function<KernelSetup()>& make,
                               void (*plain)(const KernelSetup&));

}  // namespace heddle::bench
