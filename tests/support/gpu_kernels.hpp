// The kernels of scheduled loops, as the compiler for GPUs gets them. Pure; any thread.
#pragma once

#include <string>
#include <vector>

#include "jit/code/kernels.hpp"
#include "jit/schedule/cut.hpp"

namespace heddle::jit::testing {

/// Kernel k of the unit is part k of the loops.
struct GpuKernels {
  CompileUnit unit;
  std::vector<KernelPart> parts;
};

inline GpuKernels gpu_kernels(const Loop& scheduled, const std::string& name) {
  GpuKernels made{{name, {}, false},
                  cut_kernels(scheduled, kernel_nodes_max, ScratchOf::all_parts)};
  for (const KernelPart& part : made.parts) {
    KernelSource kernel;
    kernel.name = "part" + std::to_string(made.unit.kernels.size());
    kernel.loop = verified_after("cut", part.loop, {});
    made.unit.kernels.push_back(std::move(kernel));
  }
  return made;
}

}  // namespace heddle::jit::testing
