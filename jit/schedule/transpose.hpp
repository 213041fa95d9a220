// Transposes and other permutations: their recognition, and their schedule. Pure; any thread.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "jit/loop/loop.hpp"
#include "jit/schedule/scheduling.hpp"

namespace heddle::jit {

/// A perfect nest of independent iterations.
struct Transpose {
  std::vector<StmtPtr> loops;   ///< outermost first
  StmtPtr along;                ///< its variable is contiguous in the written memory
  StmtPtr across;               ///< its variable is contiguous in the read memory
  std::vector<ValuePtr> reads;  ///< elements that are read across the written memory
  /// Values that are turned: the reads; or what is computed from reads alone, where these values
  /// are fewer than the reads.
  std::vector<ValuePtr> turned;
  /// The same where costly functions count, too; empty if there are none.
  std::vector<ValuePtr> computed;
};

[[nodiscard]] std::optional<Transpose> find_transpose(const Loop& loop, const StmtPtr& nest);
/// The value, with make(k) in place of the k-th value that is turned.
[[nodiscard]] ValuePtr with_turned(const Transpose& found, const ValuePtr& value,
                                   const std::function<ValuePtr(std::size_t)>& make);

[[nodiscard]] inline std::int64_t extent(const StmtPtr& loop) { return loop->to - loop->from; }

/// Schedules elementwise statements that read across the memory that they write (transposes,
/// permutes): in blocks that are turned in registers, or in the first-level cache. Every element
/// keeps its bits.
[[nodiscard]] std::optional<Block> schedule_transpose(Scheduling& in, const StmtPtr& nest);
/// True if the nest is such a statement, regardless of how it will run.
[[nodiscard]] bool is_transpose(const Loop& loop, const StmtPtr& nest);

}  // namespace heddle::jit
