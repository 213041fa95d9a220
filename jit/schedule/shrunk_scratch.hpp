// Scratch that lives for one iteration of a loop. Pure; any thread.
#pragma once

#include "jit/lower/lower.hpp"

namespace heddle::jit {

/// Shrinks scratch to the part that is in use at a time, which stays in cache: one row where each
/// iteration of a single outer loop uses a row of its own, or computes its row from the row before,
/// element by element.
void shrink_scratch(Lowered& lowered);

}  // namespace heddle::jit
