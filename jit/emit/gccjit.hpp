// From loop kernels to a libgccjit context, with the meaning that emit/c.hpp gives them in C.
// Linked into heddle-compile only. One thread.
#pragma once

#include <libgccjit.h>

#include "jit/emit/emit.hpp"
#include "jit/vector/target.hpp"

namespace heddle::jit {

/// Builds the unit's kernels and its ABI symbol in `context`. What libgccjit refuses is reported by
/// the context when it compiles. Throws invalid_argument as emit_c().
void emit_gccjit(gcc_jit_context* context, const CompileUnit& unit, const Target& target = {});

}  // namespace heddle::jit
