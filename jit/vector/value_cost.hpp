// What computing a value takes. Any thread.
#pragma once

#include "jit/loop/loop.hpp"

namespace heddle::jit {

/// In simple operations: an exp counts its own; divisions and roots count 8, which are about their
/// cycles per vector; calls of the C library, for each lane, count 40. Loads cost nothing here.
/// Counts to `limit` at most.
[[nodiscard]] int cost_of(const Value& value, int limit = 1 << 20);
/// Of the value alone, without its operands: 0 for what is no operation and no cast.
[[nodiscard]] int own_cost(const Value& value);

}  // namespace heddle::jit
