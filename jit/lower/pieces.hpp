// Tensors that several statements store in pieces, as pad and concatenate do. Elementwise readers,
// and sums whose terms are in one piece, need not load such a tensor: where their loops are cut at
// the ends of the pieces, each part computes elements of one piece. Pure; any thread.
#pragma once

#include <optional>

#include "jit/lower/passes.hpp"

namespace heddle::jit {

/// The next unused names of a kernel.
struct NewNames {
  VarId var = 0;
  LocalId local = 0;
};

/// A reader of `buffer`, as statements that compute the elements instead of loading them: the same
/// operations per element. None where the reader is neither elementwise nor a sum that reads each
/// element once, or reads at computed positions, or where more than nine parts would arise.
[[nodiscard]] std::optional<Block> read_in_pieces(const StmtPtr& reader, BufferId buffer,
                                                  const Pieces& pieces, NewNames& names);

}  // namespace heddle::jit
