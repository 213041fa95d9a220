// Reductions across rows on a GPU, as sums of columns. Pure; any thread.
#pragma once

#include <optional>
#include <vector>

#include "jit/schedule/scheduling.hpp"

namespace heddle::jit {

/// Schedules `columns`, perfectly nested loops whose iterations share nothing and whose innermost
/// variable reads contiguous memory, around `body`: a reduction, and straight-line code after it. A
/// group has a tile of neighbouring columns and eight threads for each; every eighth term is a
/// thread's, and the sums of a column are joined pairwise in the group's memory. Returns nothing
/// where `body` does something else, or columns are short or few.
[[nodiscard]] std::optional<Block> schedule_columns_on_gpu(Scheduling& in,
                                                           const std::vector<StmtPtr>& columns,
                                                           const Block& body);

/// The same reduction as nests that reduce parts of each column to scratch, and then the parts,
/// where the columns alone would leave most of a GPU idle; otherwise nothing.
[[nodiscard]] std::optional<Block> cut_columns_on_gpu(Scheduling& in,
                                                      const std::vector<StmtPtr>& columns,
                                                      const Block& body);

}  // namespace heddle::jit
