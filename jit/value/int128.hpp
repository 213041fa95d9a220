// A 128-bit integer: sums of products of 64-bit subscripts without overflow. Pure; any thread.
#pragma once

namespace heddle::jit {

__extension__ typedef __int128 Int128;  // NOLINT: `using` takes no __extension__

/// The quotient, rounded down.
constexpr Int128 floor_div(Int128 a, Int128 b) noexcept {
  return a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0);
}

}  // namespace heddle::jit
