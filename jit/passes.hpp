// The passes of optimize(), each a pure function from kernel to kernel (or to facts about it). Any
// thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "jit/lower.hpp"

namespace heddle::jit {

/// What tracing saw of one buffer (reference 3F).
struct Traced {
  std::int64_t visits_max = 0;  ///< reads of the most read cell among the traced iterations
  std::size_t setters = 0;      ///< top-level statements that write it
  bool read_after_write = false;
  bool constant = false;  ///< one setter, and it stores the same constant everywhere
};
/// Interprets the loops symbolically: the first `max_tracing_dim` iterations of each, static
/// indices as 0.
[[nodiscard]] std::vector<Traced> trace(const Loop& loop, int max_tracing_dim);

/// The definition of a buffer that could be recomputed where it is read.
struct Definition {
  std::size_t position = 0;  ///< of its statement in the kernel's body
  std::vector<std::optional<VarId>>
      axes;    ///< per axis the loop variable that is its subscript; none for extent 1
  Block body;  ///< innermost block; ends in the store
};
/// The definition of `buffer`, or why it has none: one of reference 3F's refusal causes, numbered.
struct Inlinable {
  std::optional<Definition> definition;
  std::string refusal;
};
[[nodiscard]] Inlinable find_definition(const Loop& loop, BufferId buffer);

/// Decides where each tensor lives: fills Lowered::placements with final modes. Throws
/// invalid_argument when a user's request cannot be met, naming tensor, request and reason.
[[nodiscard]] Lowered infer_placements(Lowered lowered, const OptimizeOptions& options);
/// Replaces reads of virtual tensors by their definitions, and drops those definitions.
[[nodiscard]] Lowered inline_virtual(Lowered lowered);
/// Folds constants and identities; drops empty loops, single-iteration loops and dead locals. Exact
/// unless fast_math.
[[nodiscard]] Lowered simplify(Lowered lowered, bool fast_math);
/// Numbers everything by first appearance, sets roles, drops buffers that no longer exist (virtual
/// ones).
[[nodiscard]] Lowered renumber(Lowered lowered);

}  // namespace heddle::jit
