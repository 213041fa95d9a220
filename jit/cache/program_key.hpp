// What makes two programs one: a key of all that decides what a compiler makes of a program, found
// before anything of it is lowered. Names are not in it. Pure; any thread.
#pragma once

#include <span>

#include "heddle/code.hpp"
#include "jit/cache/key.hpp"
#include "jit/describe/form.hpp"
#include "jit/describe/wishes.hpp"

namespace heddle::jit {

/// `wishes` are of `form.tensors`. Of the options those that decide what is compiled; what becomes
/// of it for one compiler, so that the compiler is no part of the key.
[[nodiscard]] CompileKey program_key(const ProgramForm& form, std::span<const Wish> wishes,
                                     const CompileOptions& options);

}  // namespace heddle::jit
