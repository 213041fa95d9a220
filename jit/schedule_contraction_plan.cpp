// What is decided about a contraction: a register tile by a model of the inner loop, blocks by
// cache sizes. Pure; any thread.
#include <algorithm>

#include "jit/schedule_contraction.hpp"

namespace heddle::jit {

ContractionPlan plan_contraction(const Contraction& c, const Target& target) {
  const DType type = c.type;
  const auto bytes = static_cast<std::int64_t>(size_of(type));
  const std::int64_t rows = c.row ? c.row->to : 1;
  const std::int64_t lanes = c.lane->to;
  std::int64_t terms = 1;
  for (const StmtPtr& loop : c.reduced) terms *= loop->to;
  ContractionPlan plan;
  plan.tile = choose_tile(rows, lanes, terms, type, target);
  const std::int64_t tile_lanes = plan.tile.vectors * target.lanes(type);
  plan.depth = terms;
  plan.rows = rows;
  plan.lanes = lanes;
  if (c.reduced.size() > 1 || !c.row) return plan;
  // Rows of b lie far apart: what does not fit half the second-level cache with the rest is copied.
  const bool fits = terms * lanes * bytes <= target.l2_bytes / 4;
  plan.pack_b = !c.b_is_contiguous || c.is_computed() || (!fits && rows >= 4 * plan.tile.rows);
  plan.prefetch = (rows * terms + terms * lanes + rows * lanes) * bytes > target.l2_bytes;
  if (!plan.pack_b) return plan;
  // Longer sums cost a tile of b its place in the first-level cache, shorter ones store and load
  // the sums more often: measured, the second costs more, as tiles of b come from the second-level
  // cache in time.
  if (c.target_holds_sums)
    plan.depth = std::min(
        terms, std::max(target.l1_bytes * 4 / 3, target.l2_bytes / 16) / (tile_lanes * bytes));
  plan.pack_a = !c.a_is_contiguous || c.is_computed() || rows * terms * bytes > target.l2_bytes / 2;
  const std::int64_t rows_max = target.l2_bytes / 4 / (plan.depth * bytes);
  const std::int64_t tile_rows = (rows + plan.tile.rows - 1) / plan.tile.rows;
  plan.rows =
      std::max<std::int64_t>(1, std::min(tile_rows, rows_max / plan.tile.rows)) * plan.tile.rows;
  constexpr std::int64_t lanes_max = 4096;
  constexpr std::int64_t bytes_max = std::int64_t{32} << 20;  // of the copy of b
  const std::int64_t most = std::min(lanes_max, bytes_max / (plan.depth * bytes));
  plan.lanes =
      std::max<std::int64_t>(1, std::min(lanes + tile_lanes - 1, most) / tile_lanes) * tile_lanes;
  return plan;
}

std::optional<Block> schedule_contraction(Scheduling& in, const StmtPtr& nest) {
  const std::optional<Contraction> c = find_contraction(in.lowered.loop, nest);
  if (!c) return std::nullopt;
  const ContractionPlan plan = plan_contraction(*c, in.target);
  // Copying b pays where it is used often.
  constexpr std::int64_t uses_min = 4;
  const bool used = c->row && c->row->to >= uses_min;
  if (!c->b_is_contiguous && !(plan.pack_b && used)) return std::nullopt;
  return build_contraction(in, *c, plan);
}

RegisterTile choose_tile(std::int64_t rows, std::int64_t lanes, std::int64_t depth, DType type,
                         const Target& target) {
  const std::int64_t width = target.lanes(type);
  // Of vectors besides the sums: one row of b, and an element of a in all lanes; without fma the
  // product too.
  const std::int64_t free = target.vector_registers() - (target.has_fma() ? 1 : 2);
  // Per step, in half cycles: two multiply-adds and two loads a cycle; a chain of sums takes four.
  const auto step = [&](std::int64_t r, std::int64_t v) {
    return static_cast<double>(std::max({r * v, r + v, std::int64_t{8}}));
  };
  // Starting a tile and storing it: measured, in the same unit.
  constexpr double per_tile = 120;
  constexpr double per_sum = 5;
  RegisterTile best;
  double least = -1;
  for (std::int64_t v = 1; v <= 8; ++v) {
    for (std::int64_t r = 1; r * v + v <= free; ++r) {
      double time = 0;
      for (const Segment& row : balanced_tiles(rows, r)) {
        for (const Segment& lane : whole_tiles(lanes, v * width)) {
          const std::int64_t vectors = (lane.size + width - 1) / width;
          time += static_cast<double>(row.count * lane.count) *
                  (static_cast<double>(depth) * step(row.size, vectors) + per_tile +
                   per_sum * static_cast<double>(row.size * vectors));
        }
      }
      if (least < 0 || time < least) {
        least = time;
        best = {r, v};
      }
    }
  }
  return best;
}

}  // namespace heddle::jit
