// Primitive functions run on the host, on single values: used to fold operations on constants, and
// as the reference for compiled code, bit for bit. Pure functions; any thread.
#pragma once

#include <span>

#include "jit/value/primitives.hpp"

namespace heddle::jit {

/// The result of `function` on scalars of its parameter types (machine types: no f16, no bf16). NaN
/// payloads are unspecified. Throws internal on a call that has no host function here.
[[nodiscard]] Scalar evaluate(const PrimFunction& function, std::span<const Scalar> args);

}  // namespace heddle::jit
