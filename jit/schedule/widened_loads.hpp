// Bools in memory as values that vectors can load: the byte as f32, compared with 0. Pure.
#pragma once

#include <set>

#include "jit/loop/loop.hpp"

namespace heddle::jit {

/// The statements, with each bool that an operation or a conversion to f32 loads in that form;
/// statements with a bool as their value stay as they are.
[[nodiscard]] Block with_widened_loads(const Block& body);

/// The statements, with bools loaded as they are wherever no vector code does: `vectors` has the
/// variables of loops that are vector code. GCC 12 makes wrong vectors of the widened form.
[[nodiscard]] Block with_plain_loads(const Block& body, const std::set<VarId>& vectors);

}  // namespace heddle::jit
