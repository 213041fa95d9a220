// How libgccjit is told to compile. Linked into what runs libgccjit only. One thread.
#pragma once

#include <libgccjit.h>

#include <string_view>

#include "jit/vector/target.hpp"

namespace heddle::jit {

/// The option that names this processor's level, or a lower one for fewer instructions than it has;
/// empty where it has none.
[[nodiscard]] std::string_view gccjit_machine_option(Isa isa);

/// The same as cc_flags(): both compilers give the same bits.
void set_gccjit_options(gcc_jit_context* context, int optimization_level, bool fast_math, Isa isa);

}  // namespace heddle::jit
