// Labels of the kernels of a program, made from the program's comments. Pure; any thread.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "jit/loop/loop.hpp"
#include "jit/schedule/cut.hpp"

namespace heddle::jit {

/// For each kernel: the program's own comments above the kernel's statements, such as the scopes of
/// a graph: "layers/0, layers/1". If there are more than three, "..." follows the first three.
/// Empty without comments, and if the program is one kernel, which has the program's name.
[[nodiscard]] std::vector<std::string> about_kernels(const Loop& unoptimized,
                                                     std::span<const KernelPart> kernels);

}  // namespace heddle::jit
