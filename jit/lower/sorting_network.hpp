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

/// Puts the first `count` elements of the row in rising order: Batcher's merge exchange (Knuth, The
/// Art of Computer Programming, volume 3, 5.2.2, algorithm M), whose about count log2(count)^2 / 4
/// exchanges do not depend on the values. Takes numbers of variables and locals from the two
/// counters.
[[nodiscard]] Block sorting_network(const RowOfBuffer& row, std::int64_t count, VarId& next_var,
                                    LocalId& next_local);

}  // namespace heddle::jit
