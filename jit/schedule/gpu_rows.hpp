// Rows as a group of a GPU's threads works on them: sums, softmax and the like, whose rows lie in
// memory on end. Pure; any thread.
#pragma once

#include <optional>
#include <vector>

#include "jit/schedule/scheduling.hpp"

namespace heddle::jit {

/// Threads of a group: enough of them to hide what memory takes, and each may have 255 registers.
inline constexpr std::int64_t group_threads = 256;

/// `rows`, loops alone in each other whose iterations share nothing, around `body`: each row is a
/// group's, or that of some of its threads, where it is short. Reductions along a row are a sum for
/// each thread, joined pairwise in the memory of the group; the rest of a row is shared out. Long
/// reductions of few rows are cut, and what each part gives is reduced again. Nothing where `body`
/// does something else, or its loops do not lie along rows in memory.
[[nodiscard]] std::optional<Block> schedule_rows_on_gpu(Scheduling& in,
                                                        const std::vector<StmtPtr>& rows,
                                                        const Block& body);

}  // namespace heddle::jit
