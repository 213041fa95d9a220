// How libgccjit is told to compile. Linked into what runs libgccjit only. One thread.
#pragma once

#include <libgccjit.h>

#include <string_view>

namespace heddle::jit {

/// The option that names this processor's level; empty where it has none.
[[nodiscard]] std::string_view gccjit_machine_option();

/// The same as compile_cc.cpp's flags: both compilers give the same bits.
void set_gccjit_options(gcc_jit_context* context, int optimization_level, bool fast_math);

}  // namespace heddle::jit
