// What the kernels of a program are called beside its name. Pure; any thread.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "jit/loop/loop.hpp"
#include "jit/schedule/cut.hpp"

namespace heddle::jit {

/// Of each kernel: the program's own comments that its statements stand behind, such as the scopes
/// of a graph: "layers/0, layers/1". The first three; empty where there are none, and where the
/// program is one kernel, which its name tells.
[[nodiscard]] std::vector<std::string> about_kernels(const Loop& unoptimized,
                                                     std::span<const KernelPart> kernels);

}  // namespace heddle::jit
