// From loop kernels to a libgccjit context, with the meaning of emit/c.hpp's C text. Linked into
// heddle-compile only. One thread.
#pragma once

#include <libgccjit.h>

#include "jit/emit/emit.hpp"
#include "jit/vector/target.hpp"

namespace heddle::jit {

/// Builds the unit's kernels and its ABI symbol in `context`. The context reports libgccjit's
/// errors when it compiles. Throws invalid_argument as emit_c().
void emit_gccjit(gcc_jit_context* context, const CompileUnit& unit, const Target& target = {});

}  // namespace heddle::jit
