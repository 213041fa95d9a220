// What options of a compile may be. Pure; any thread.
#pragma once

#include "heddle/code.hpp"

namespace heddle::jit {

/// Throws invalid_argument for values that no program could be compiled with.
void check(const CompileOptions& options);

}  // namespace heddle::jit
