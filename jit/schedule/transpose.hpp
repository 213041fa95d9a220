// What is known of a transpose before it is known how it runs. Pure; any thread.
#pragma once

#include <optional>
#include <vector>

#include "jit/loop/loop.hpp"

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

}  // namespace heddle::jit
