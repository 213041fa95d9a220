// What makes two programs one: a key of all that decides what a compiler makes of a program, found
// before anything of it is lowered. Names are not in it. Pure; any thread.
#pragma once

#include <span>

#include "heddle/code.hpp"
#include "jit/cache/key.hpp"
#include "jit/describe/form.hpp"
#include "jit/describe/wishes.hpp"

namespace heddle::jit {

/// `wishes` are of `form.tensors`. The key holds the options that decide what is compiled. It
/// serves one compiler, which is therefore no part of it.
[[nodiscard]] CompileKey program_key(const ProgramForm& form, std::span<const Wish> wishes,
                                     const CompileOptions& options);

}  // namespace heddle::jit
