// Keys of programs: a hash of everything that decides a compiler's output for a program, computed
// before lowering. Names are not part of the key. Pure; any thread.
#pragma once

#include <span>

#include "heddle/code.hpp"
#include "jit/cache/key.hpp"
#include "jit/describe/form.hpp"
#include "jit/describe/wishes.hpp"

namespace heddle::jit {

/// `wishes` belong to `form.tensors`. The key covers the options that decide the compiled code. A
/// key is used with one compiler only, hence does not cover the compiler.
[[nodiscard]] CompileKey program_key(const ProgramForm& form, std::span<const Wish> wishes,
                                     const CompileOptions& options);

}  // namespace heddle::jit
