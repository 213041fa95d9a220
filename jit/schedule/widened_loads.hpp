// Bools in memory as values that vectors can load: the byte as f32, compared with 0. Pure.
#pragma once

#include "jit/loop/loop.hpp"

namespace heddle::jit {

/// The statements, with each bool that an operation or a conversion to f32 loads in that form;
/// statements with a bool as their value stay as they are.
[[nodiscard]] Block with_widened_loads(const Block& body);

}  // namespace heddle::jit
