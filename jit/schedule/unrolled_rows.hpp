// Rows of two to four elements, as of points f32[N, 3], of which each is worked on as a whole: its
// length, its sum, a value for all its elements. Pure; any thread.
#pragma once

#include "jit/schedule/scheduling.hpp"

namespace heddle::jit {

/// Unrolls the loops along the rows, and gives each lane of a vector a row of its own: vectors of
/// rows are permuted in registers (see row_access()). Every element keeps its bits. Returns nothing
/// where the statements have no such vector form, and where all of them go along the rows: then the
/// array is one axis of elements.
[[nodiscard]] std::optional<Block> schedule_unrolled_rows(Scheduling& in, const StmtPtr& nest);

/// schedule_unrolled_rows() for products of short rows and a short matrix, as of points f32[N, 3]
/// and f32[3, 3], which fill no tile of sums.
[[nodiscard]] std::optional<Block> schedule_short_products(Scheduling& in, const StmtPtr& nest);
/// True if schedule_short_products() takes the nest.
[[nodiscard]] bool is_short_product(Scheduling& in, const StmtPtr& nest);
/// True if schedule_short_products() also takes the nest fused with all the nests over the same
/// rows that compute its operands or read its results, and so on: all have loops along short rows
/// alone.
[[nodiscard]] bool is_among_short_rows(Scheduling& in, const StmtPtr& nest);

}  // namespace heddle::jit
