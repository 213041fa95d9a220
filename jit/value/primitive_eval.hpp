// Primitive functions run on the host, one value at a time: how operations on constants are folded,
// and the yardstick of what compiled code must give, bit for bit. Pure functions; any thread.
#pragma once

#include <span>

#include "jit/value/primitives.hpp"

namespace heddle::jit {

/// The result of `function` on scalars of its parameter types (machine types: no f16, no bf16).
/// Every NaN is as good as another. Throws internal on a call that is not known here.
[[nodiscard]] Scalar evaluate(const PrimFunction& function, std::span<const Scalar> args);

}  // namespace heddle::jit
