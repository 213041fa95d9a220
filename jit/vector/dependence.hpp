// Which loops carry a dependence through memory: an iteration touches an element that another one
// writes. Pure; any thread.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <set>

#include "jit/loop/loop.hpp"
#include "jit/vector/lanes.hpp"

namespace heddle::jit {

/// What is in memory: a buffer, or a local block that is an array.
struct Place {
  bool is_block = false;
  std::uint32_t id = 0;  ///< BufferId or LocalId
  friend auto operator<=>(const Place&, const Place&) = default;
};

/// By the variable of each loop that carries any: the places that it carries dependences through.
/// Exact where subscripts differ by constants (distance vectors); else by the bounds of what they
/// reach and by common divisors, and on the safe side: a loop that is not here carries none.
/// Places of different buffers are taken to be apart. What vector loops do is left out.
using CarriedDependences = std::map<VarId, std::set<Place>>;
[[nodiscard]] CarriedDependences carried_dependences(const Loop& loop, const LanePlan& plan);

}  // namespace heddle::jit
