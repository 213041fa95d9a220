// Checks the options of a compile. Pure; any thread.
#pragma once

#include "heddle/code.hpp"

namespace heddle::jit {

/// Throws invalid_argument for values with which no program can be compiled.
void check(const CompileOptions& options);

}  // namespace heddle::jit
