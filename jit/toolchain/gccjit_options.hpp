// The options of libgccjit. Linked only into programs that run libgccjit. One thread.
#pragma once

#include <libgccjit.h>

#include <string_view>

#include "jit/vector/target.hpp"

namespace heddle::jit {

/// The option for this processor's instruction level, or for a lower level where `isa` is lower;
/// empty where no such option exists.
[[nodiscard]] std::string_view gccjit_machine_option(Isa isa);

/// Sets the equivalent of cc_flags(): both compilers give the same bits.
void set_gccjit_options(gcc_jit_context* context, int optimization_level, bool fast_math, Isa isa);

}  // namespace heddle::jit
