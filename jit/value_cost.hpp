// What computing a value takes. Pure; any thread.
#pragma once

#include "jit/loop.hpp"

namespace heddle::jit {

/// In simple operations: an exp counts its own; divisions, roots and calls count 8, which are about
/// their cycles per vector. Loads cost nothing here.
[[nodiscard]] int cost_of(const Value& value);

}  // namespace heddle::jit
