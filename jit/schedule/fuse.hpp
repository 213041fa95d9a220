// Fusion: loops one after another that run over the same extent become one, where what the first
// makes or reads is used by the second while it is still in cache. Pure; any thread.
#pragma once

#include <functional>

#include "jit/loop/loop.hpp"
#include "jit/lower/lower.hpp"

namespace heddle::jit {

using LoopQuestion = std::function<bool(const StmtPtr&)>;

/// Joins neighbouring loops where the second uses what the first makes or, both elementwise, reads;
/// outer ones first. What is `fixed` stays alone.
[[nodiscard]] Block fuse_loops(const Block& body, const LoopQuestion& fixed,
                               const LoopQuestion& becomes_vectors);

/// Scratch that each iteration of one outer loop has a part of for itself becomes that part: it
/// stays in cache.
void shrink_scratch(Lowered& lowered);

}  // namespace heddle::jit
