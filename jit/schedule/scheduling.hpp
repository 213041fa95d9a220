// State shared by the steps of a schedule: the kernel that they rewrite and add to; helpers for
// straight-line code. A step named schedule_...() returns the statements that replace a nest, or
// nothing where the nest is not of its class. One thread at a time for each kernel.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

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

/// The kernel under construction: schedules add scratch buffers and numbers to it.
struct Scheduling {
  Lowered& lowered;
  const Target& target;
  Fresh fresh;
  std::optional<ContractionTile> tile;  ///< the user's tile
  ScheduleChoices choices{};            ///< without steps and profile, which are already applied
  bool fast_math = false;
  /// Adds scratch of the given type.
  BufferId add_scratch(const char* label, DType type, Dims dims);
  /// Removes the scratch buffers from number `from` on, which must be the latest.
  void drop_scratch(std::size_t from);
  /// Remaining bytes of local blocks for nests scheduled from here on, within a nest of the top
  /// level: the blocks share a stack.
  std::int64_t block_bytes_left = block_bytes_max;
  /// By buffer of the fused kernel: how often its statements access it.
  const std::vector<std::int64_t>& all_accesses();
  std::vector<std::int64_t> counted_accesses{};  ///< empty: not counted yet
  /// The scheduled statement is at the top level, so its loops may run in parts.
  bool is_top = false;
};

/// Calls `visit` with the buffer of each access: loads, stores, zeroing and prefetching.
template <class Visit>
void each_touched(const Block& body, const Visit& visit) {
  walk(body, [&](const Stmt& stmt) {
    if (stmt.kind == StmtKind::store || stmt.kind == StmtKind::zero ||
        stmt.kind == StmtKind::prefetch)
      visit(stmt.buffer);
    if (!stmt.value) return;
    walk(*stmt.value, [&](const Value& v) {
      if (v.kind == ValueKind::load) visit(v.buffer);
    });
  });
}
/// By buffer: how often the statements access it.
[[nodiscard]] std::vector<std::int64_t> accesses_of_buffers(const Block& body, std::size_t buffers);
/// By buffer: the statements of `body` that access it, or contain statements that do, in order.
[[nodiscard]] std::vector<std::vector<std::size_t>> users_of_buffers(const Block& body,
                                                                     std::size_t buffers);

inline void append(Block& to, const Block& more) { to.insert(to.end(), more.begin(), more.end()); }

/// Renumbers variables and locals by first appearance, as the text requires.
[[nodiscard]] Block renumbered(const Block& body);
/// A copy of the statements with fresh variables and locals, and the substitution `by` applied.
[[nodiscard]] Block with_own_names(Fresh& fresh, const Block& body, Substitution by);
[[nodiscard]] inline bool is_serial_loop(const StmtPtr& stmt) {
  return stmt->kind == StmtKind::loop && stmt->mark == LoopMark::serial;
}
/// True if the block has only declarations of scalars, assignments, stores and comments.
[[nodiscard]] bool is_straight(const Block& body);
/// True if some statement declares a local, as sums do.
[[nodiscard]] bool declares_local(const Block& body);
/// Comments name the scopes of statements and decide no schedule. The position of the first
/// statement from `k` on that is no comment; past the end: there is none.
[[nodiscard]] std::size_t past_comments(const Block& body, std::size_t k);
/// Appends the comments among the statements `from` to `end`.
void append_comments(Block& to, const Block& body, std::size_t from, std::size_t end);
/// A copy of straight-line code with fresh locals, and the substitution `by` applied.
[[nodiscard]] Block copied(Scheduling& in, const Block& body, Substitution by);

}  // namespace heddle::jit
