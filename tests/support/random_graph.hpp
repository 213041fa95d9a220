// Random graphs, for differential tests: small arrays of all dtypes, every kind of node. The seed
// decides everything. One thread.
#pragma once

#include <cstdint>

#include "heddle/graph.hpp"

namespace heddle::jit::testing {

/// A finished graph of some `size` operations, of which 1 to 3 are results.
[[nodiscard]] Graph random_graph(std::uint64_t seed, int size);

}  // namespace heddle::jit::testing
