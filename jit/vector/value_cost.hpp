// The cost of computing a value. Any thread.
#pragma once

#include "jit/loop/loop.hpp"

namespace heddle::jit {

/// The cost in simple operations: an exp counts its own operations; divisions and roots count 8,
/// which are about their cycles per vector; calls of the C library, for each lane, count 40. Loads
/// are free here. Counts to `limit` at most.
[[nodiscard]] int cost_of(const Value& value, int limit = 1 << 20);
/// The cost of the value alone, without its operands: 0 unless it is an operation or a cast.
[[nodiscard]] int own_cost(const Value& value);
/// The own cost from which on a function counts as costly, as exp does.
inline constexpr int costly = 16;
/// True if an operation of the value is costly.
[[nodiscard]] bool has_costly(const Value& value);

/// True if the statements have sums, products, quotients and roots alone, of which compilers make
/// vectors across short rows by themselves.
[[nodiscard]] bool has_plain_arithmetic(const Block& body);

}  // namespace heddle::jit
