// Rows that a group of GPU threads processes: sums, softmax and the like, whose rows are contiguous
// in memory. Pure; any thread.
#pragma once

#include <optional>
#include <vector>

#include "jit/schedule/scheduling.hpp"

namespace heddle::jit {

/// Threads of a group: enough to hide memory latency, and each may have 255 registers.
inline constexpr std::int64_t group_threads = 256;

/// Schedules `rows`, perfectly nested loops whose iterations share nothing, around `body`: a group
/// has one row or, if rows are short, some of its threads have one. In a reduction along a row,
/// each thread has a sum, and the sums are joined pairwise in the group's memory; the other work on
/// a row is shared out. Long reductions of few rows are cut, and the partial results are reduced
/// again. Returns nothing where `body` does something else, or its loops are not contiguous along
/// rows.
[[nodiscard]] std::optional<Block> schedule_rows_on_gpu(Scheduling& in,
                                                        const std::vector<StmtPtr>& rows,
                                                        const Block& body);

}  // namespace heddle::jit
