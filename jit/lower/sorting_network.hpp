// Loops that sort a row in place. Pure; any thread.
#pragma once

#include "jit/loop/loop.hpp"

namespace heddle::jit {

/// The elements of a buffer whose last subscript varies.
struct RowOfBuffer {
  BufferId buffer;
  DType dtype;
  std::vector<Affine> subscripts;  ///< of one element; the last one does not matter
};

/// Puts the first `count` elements of the row in rising order, by exchanges that do not depend on
/// the values: groups of eight by Batcher's merge exchange, then bitonic merges whose first step
/// exchanges the first place with the last, so that every exchange puts the lesser element first
/// (Knuth, The Art of Computer Programming, volume 3, 5.3.4). Up to three steps are done between a
/// load and a store of an element. Takes numbers of variables and locals from the two counters.
[[nodiscard]] Block sorting_network(const RowOfBuffer& row, std::int64_t count, VarId& next_var,
                                    LocalId& next_local);

}  // namespace heddle::jit
