// From loop kernels to C11 text: a self-contained translation unit for gcc and clang. Pure; any
// thread.
#pragma once

#include <string>

#include "jit/emit/emit.hpp"
#include "jit/vector/target.hpp"

namespace heddle::jit {

/// The text of a unit: types of the kernel ABI, the primitive functions that the unit uses, and its
/// kernels. Throws invalid_argument as check_unit().
[[nodiscard]] std::string emit_c(const CompileUnit& unit, const Target& target = {});

}  // namespace heddle::jit
