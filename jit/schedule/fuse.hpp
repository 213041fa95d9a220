// Fusion: loops over the same extent become one, where the second uses data that the first writes
// or reads, while the data is still in cache. Pure; any thread.
#pragma once

#include <functional>

#include "jit/loop/loop.hpp"
#include "jit/lower/lower.hpp"

namespace heddle::jit {

using LoopQuestion = std::function<bool(const StmtPtr&)>;

/// Joins loops where the second uses data that the first writes, also past a few loops that share
/// no data with the second; and neighbouring loops that read the same data, if both are elementwise
/// or both store single elements at computed positions; outer loops first. Loops for which `fixed`
/// holds stay alone.
[[nodiscard]] Block fuse_loops(const Block& body, const LoopQuestion& fixed,
                               const LoopQuestion& becomes_vectors);

}  // namespace heddle::jit
