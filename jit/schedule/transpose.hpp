// Transposes and other permutations: what is known of one before it is known how it runs, and then
// how it runs. Pure; any thread.
#pragma once

#include <optional>
#include <vector>

#include "jit/loop/loop.hpp"
#include "jit/schedule/scheduling.hpp"

namespace heddle::jit {

/// A perfect nest of independent iterations.
struct Transpose {
  std::vector<StmtPtr> loops;  ///< outermost first
  StmtPtr along;               ///< whose variable is contiguous in what is written
  StmtPtr across;              ///< likewise, in what is read
  std::vector<ValuePtr> reads;
};

[[nodiscard]] std::optional<Transpose> find_transpose(const Loop& loop, const StmtPtr& nest);

[[nodiscard]] inline std::int64_t extent(const StmtPtr& loop) { return loop->to - loop->from; }

/// Elementwise statements that read across the memory that they write (transposes, permutes): in
/// blocks that are turned in registers, or in the first-level cache. Every element keeps its bits.
[[nodiscard]] std::optional<Block> schedule_transpose(Scheduling& in, const StmtPtr& nest);
/// Whether it is such a statement, before it is known how it runs.
[[nodiscard]] bool is_transpose(const Loop& loop, const StmtPtr& nest);

}  // namespace heddle::jit
