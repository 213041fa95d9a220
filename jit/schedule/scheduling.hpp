// What the steps of a schedule share: the kernel that they rewrite and add to, and straight-line
// code. A step named schedule_...() gives the statements that take the place of a nest, or nothing
// where the nest is not of its class. One thread at a time for each kernel.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "heddle/code.hpp"
#include "jit/loop/rewrite.hpp"
#include "jit/lower/lower.hpp"
#include "jit/vector/target.hpp"

namespace heddle::jit {

/// Numbers that no variable and no local of a kernel has.
struct Fresh {
  VarId next_var = 0;
  LocalId next_local = 0;
  explicit Fresh(const Loop& loop);
  [[nodiscard]] VarId var() noexcept { return next_var++; }
  [[nodiscard]] LocalId local() noexcept { return next_local++; }
};

/// What schedules add to: scratch buffers, and numbers.
struct Scheduling {
  Lowered& lowered;
  const Target& target;
  Fresh fresh;
  std::optional<ContractionTile> tile;  ///< that the user asked for
  ScheduleChoices choices{};            ///< but for its steps and profile, which are taken already
  bool fast_math = false;
  /// Scratch of this type.
  BufferId add_scratch(const char* label, DType type, Dims dims);
  /// Forgets scratch from this buffer on, the latest.
  void drop_scratch(std::size_t from);
  /// Bytes of local blocks that nests scheduled from here on may have together, within a nest of
  /// the top level: they share a stack.
  std::int64_t block_bytes_left = block_bytes_max;
  /// What is scheduled is a statement of the top level, whose loops may run in parts.
  bool is_top = false;
};

inline void append(Block& to, const Block& more) { to.insert(to.end(), more.begin(), more.end()); }

/// Variables and locals by first appearance, as the text wants them.
[[nodiscard]] Block renumbered(const Block& body);
/// Statements with variables and locals of their own, and `by` put in.
[[nodiscard]] Block with_own_names(Fresh& fresh, const Block& body, Substitution by);
/// Declarations of scalars, assignments and stores; comments.
[[nodiscard]] bool is_straight(const Block& body);
/// Straight-line code with `by` put in, its own locals renamed.
[[nodiscard]] Block copied(Scheduling& in, const Block& body, Substitution by);

}  // namespace heddle::jit
