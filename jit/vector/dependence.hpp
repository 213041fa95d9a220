// Finds loops that carry a dependence through memory: an iteration touches an element that another
// iteration writes. Pure; any thread.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <set>

#include "jit/loop/loop.hpp"
#include "jit/vector/lanes.hpp"

namespace heddle::jit {

/// A place in memory: a buffer, or a local block that is an array.
struct Place {
  bool is_block = false;
  std::uint32_t id = 0;  ///< BufferId or LocalId
  friend auto operator<=>(const Place&, const Place&) = default;
};

/// By the variable of each loop with a dependence: the places through which it carries dependences.
/// Exact where subscripts differ by constants (distance vectors). Otherwise derived from the bounds
/// of subscripts and from common divisors, conservatively: a loop without an entry carries none.
/// Places of different buffers are assumed to be disjoint. Accesses of vector loops are ignored.
using CarriedDependences = std::map<VarId, std::set<Place>>;
[[nodiscard]] CarriedDependences carried_dependences(const Loop& loop, const LanePlan& plan);

}  // namespace heddle::jit
