// Schedules: how the statements of a kernel run on a target, as rewritten loops that a reader can
// print. The last stage before emitting; pure and deterministic. Any thread.
//
// Each top-level nest is looked at on its own. What is recognised is rewritten by the steps of its
// class; the rest stays as it is. Every step keeps the scalar meaning of the loops, so the verifier
// and a plain interpreter check them all. Numbers may differ from those of the unscheduled loops
// where a schedule fixes another order of summation, or rounds a product and its sum once (fma):
// for one schedule they are the same in each run and from each compiler.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "heddle/code.hpp"
#include "jit/loop/rewrite.hpp"
#include "jit/lower/lower.hpp"
#include "jit/vector/target.hpp"

namespace heddle::jit {

/// The kernel, scheduled for `target`. Buffers keep their numbers; scratch that schedules need
/// comes after them, with a tensor each. Comments in the kernel say what was chosen. `without`:
/// steps that are left out. `tile`: of all contractions; invalid_argument where it does not fit.
[[nodiscard]] Lowered schedule(Lowered lowered, const Target& target,
                               std::span<const ScheduleStep> without = {},
                               const std::optional<ContractionTile>& tile = {});

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
  /// Scratch of this type.
  BufferId add_scratch(const char* label, DType type, Dims dims);
  /// Forgets scratch from this buffer on, the latest.
  void drop_scratch(std::size_t from);
  /// Bytes of local blocks that nests scheduled from here on may have together: they share a stack.
  std::int64_t block_bytes_left = block_bytes_max;
};

// The classes, in the order in which they are tried. Each gives the statements that take the place
// of a nest, or nothing where it is not of that class.
[[nodiscard]] std::optional<Block> schedule_contraction(Scheduling& in, const StmtPtr& nest);
/// Throws invalid_argument where a tile that the user asked for is none, or exceeds the registers.
void check_tile(const ContractionTile& tile, const Target& target);
/// Sums along columns: each has a lane of its own, so every element keeps its order of terms.
[[nodiscard]] std::optional<Block> schedule_column_reduction(Scheduling& in, const StmtPtr& nest);
/// `declare` and the loops after it that sum into it: several vectors of sums, folded pairwise.
[[nodiscard]] std::optional<Block> schedule_row_reduction(Scheduling& in, const StmtPtr& declare,
                                                          const StmtPtr& nest);
/// Elementwise statements that read across the memory that they write (transposes, permutes): in
/// blocks that are turned in registers, or in the first-level cache. Every element keeps its bits.
[[nodiscard]] std::optional<Block> schedule_transpose(Scheduling& in, const StmtPtr& nest);
/// Whether it is such a statement, before it is known how it runs.
[[nodiscard]] bool is_transpose(const Loop& loop, const StmtPtr& nest);
/// An innermost loop of straight-line code. Every element keeps its bits.
[[nodiscard]] std::optional<Block> schedule_elementwise(Scheduling& in, const StmtPtr& nest);
/// Whether schedule_elementwise() takes all innermost loops of the nest, were they long enough.
[[nodiscard]] bool is_elementwise(const Scheduling& in, const StmtPtr& nest);

/// Sums with terms of one statement each, where those are of several that only declare.
[[nodiscard]] Block with_whole_terms(const Block& body);
/// Joins neighbouring loops where the second uses what the first makes or, both elementwise, reads;
/// outer ones first. What is `fixed` stays alone.
using LoopQuestion = std::function<bool(const StmtPtr&)>;
[[nodiscard]] Block fuse_loops(const Block& body, const LoopQuestion& fixed,
                               const LoopQuestion& becomes_vectors);

/// Vector stores that fill an output which the kernel does not read, and which no cache would hold,
/// pass the caches by.
/// `plan` is that of the kernel, before and after.
void stream_outputs(Lowered& lowered, const Target& target, const LanePlan& plan);

/// Where loops go over the same rows of a large input, all but the first find them in the cache:
/// one of these fetches the next row.
[[nodiscard]] Block fetch_rows_ahead(Scheduling& in, const Block& body);

/// Declarations of scalars, assignments and stores; comments.
[[nodiscard]] bool is_straight(const Block& body);
/// Straight-line code with `by` put in, its own locals renamed.
[[nodiscard]] Block copied(Scheduling& in, const Block& body, Substitution by);

/// Fills scratch with costly values that nests would compute anew in many of their iterations.
void store_shared_values(Scheduling& in);
/// Costly values move before the loops that do not change them, as locals.
[[nodiscard]] Block hoist_values(Fresh& fresh, const Block& body);
/// Costly values that statements of a block have in common become locals.
[[nodiscard]] Block share_values(Fresh& fresh, const Block& body);

/// Scratch that each iteration of one outer loop has a part of for itself becomes that part: it
/// stays in cache.
void shrink_scratch(Lowered& lowered);

/// How an extent is cut into tiles: `count` of `size` elements from `offset` on.
struct Segment {
  std::int64_t offset = 0;
  std::int64_t count = 0;
  std::int64_t size = 0;
  friend bool operator==(const Segment&, const Segment&) = default;
};
/// As few tiles of at most `size` as there can be, their sizes differing by one at most.
[[nodiscard]] std::vector<Segment> balanced_tiles(std::int64_t extent, std::int64_t size);
/// Whole tiles, and a smaller one for the rest.
[[nodiscard]] std::vector<Segment> whole_tiles(std::int64_t extent, std::int64_t size);

}  // namespace heddle::jit
