// What is decided about a contraction: a register tile by a model of the inner loop, blocks by
// cache sizes. Pure; any thread.
#include <fmt/format.h>

#include <algorithm>

#include "heddle/status.hpp"
#include "jit/schedule/contraction.hpp"
#include "jit/schedule/tiles.hpp"

namespace heddle::jit {

namespace {

std::int64_t product_of(const std::vector<StmtPtr>& loops) {
  std::int64_t product = 1;
  for (const StmtPtr& loop : loops) product *= loop->to;
  return product;
}

/// In half cycles: a vector, or an element at a time.
double copy_time(double elements, bool contiguous) { return elements * (contiguous ? 0.25 : 2); }

/// The time that copies and turning sums take.
double overhead(const Contraction& c, const ContractionPlan& plan, const Target& target) {
  const auto rows = static_cast<double>(c.row ? c.row->to : 1);
  const auto lanes = static_cast<double>(c.lane->to);
  const auto terms = static_cast<double>(product_of(c.reduced));
  const auto moving = static_cast<double>(product_of(c.moving_b));
  const double all = moving * static_cast<double>(product_of(c.sharing_b));
  double time = 0;
  if (plan.pack_b) time += moving * copy_time(terms * lanes, c.b_is_contiguous);
  if (plan.pack_a) time += all * copy_time(rows * terms, c.rows_are_contiguous);
  if (c.across) {
    time += all * rows * lanes / static_cast<double>(target.lanes(c.type)) *
            static_cast<double>(target.profile.tile_turn);
  }
  return time;
}

/// Registers for sums and a row of b: all but the one of an element of a in all lanes, and without
/// fma the one of a product.
std::int64_t free_registers(const Target& target) {
  return target.vector_registers() - (target.has_fma() ? 1 : 2);
}

TileChoice timed_tile(const RegisterTile& tile, std::int64_t rows, std::int64_t lanes,
                      std::int64_t depth, DType type, const Target& target) {
  const std::int64_t width = target.lanes(type);
  // Per step, in half cycles: two multiply-adds and two loads a cycle; a chain of sums takes four.
  const auto step = [](std::int64_t r, std::int64_t v) {
    return static_cast<double>(std::max({r * v, r + v, std::int64_t{8}}));
  };
  const auto per_tile = static_cast<double>(target.profile.tile_start);
  const auto per_sum = static_cast<double>(target.profile.tile_sum);
  double time = 0;
  for (const Segment& row : balanced_tiles(rows, tile.rows)) {
    for (const Segment& lane : whole_tiles(lanes, tile.vectors * width)) {
      const std::int64_t vectors = (lane.size + width - 1) / width;
      time += static_cast<double>(row.count * lane.count) *
              (static_cast<double>(depth) * step(row.size, vectors) + per_tile +
               per_sum * static_cast<double>(row.size * vectors));
    }
  }
  return {tile, time};
}

struct Candidate {
  Contraction c;
  ContractionPlan plan;
};

std::optional<Candidate> candidate(const Scheduling& in, const StmtPtr& nest, bool across) {
  std::optional<Contraction> c = find_contraction(in.lowered.loop, nest, across);
  if (!c) return std::nullopt;
  ContractionPlan plan = plan_contraction(in, *c);
  // Copying b pays where it is used often.
  constexpr std::int64_t uses_min = 4;
  const bool used = c->row && c->row->to * product_of(c->sharing_b) >= uses_min;
  if (!c->b_is_contiguous && !(plan.pack_b && used)) return std::nullopt;
  return Candidate{*std::move(c), plan};
}

}  // namespace

void check_tile(const ContractionTile& tile, const Target& target) {
  if (tile.rows < 1 || tile.vectors < 1 || tile.terms < 0) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("contraction_tile has {} rows of {} vectors, {} terms at a time; rows "
                            "and vectors begin at 1, terms at 0",
                            tile.rows, tile.vectors, tile.terms));
  }
  const std::int64_t free = free_registers(target);
  if (target.isa != Isa::none &&
      (tile.rows > free || tile.vectors > free || tile.rows * tile.vectors + tile.vectors > free)) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("contraction_tile has {0} rows of {1} vectors; sums and one row more "
                            "are to fit {2} registers, as {3} has them for this: choose fewer",
                            tile.rows, tile.vectors, free, name(target.isa)));
  }
}

ContractionPlan plan_contraction(const Scheduling& in, const Contraction& c) {
  const Target& target = in.target;
  const DType type = c.type;
  const auto bytes = static_cast<std::int64_t>(size_of(type));
  const std::int64_t rows = c.row ? c.row->to : 1;
  const std::int64_t lanes = c.lane->to;
  const std::int64_t terms = product_of(c.reduced);
  const std::int64_t shared = product_of(c.sharing_b);
  ContractionPlan plan;
  const TileChoice choice =
      in.tile ? timed_tile({in.tile->rows, in.tile->vectors}, rows, lanes, terms, type, target)
              : choose_tile(rows, lanes, terms, type, target);
  plan.tile = choice.tile;
  const std::int64_t tile_lanes = plan.tile.vectors * target.lanes(type);
  plan.depth = terms;
  plan.rows = rows;
  plan.lanes = lanes;
  plan.time = choice.time * static_cast<double>(product_of(c.moving_b) * shared);
  if (!c.row) return plan;
  // Rows of b lie far apart: what does not fit half the second-level cache with the rest is copied.
  // Windows of a convolution overlap, and fit.
  const bool fits = c.reduced.size() > 1 || terms * lanes * bytes <= target.l2_bytes / 4;
  // Rows of a tile or two lie next to one another as they are: blocks of them need no copy.
  const bool blocked =
      !c.b_is_contiguous || c.is_computed() || (!fits && rows * shared >= 4 * plan.tile.rows);
  plan.pack_b = !c.b_is_contiguous || c.is_computed() || (blocked && lanes > 2 * tile_lanes);
  plan.prefetch = (rows * terms + terms * lanes + rows * lanes) * bytes > target.l2_bytes;
  if (blocked) {
    // Longer sums cost a tile of b its place in the first-level cache, shorter ones store and load
    // the sums more often: measured, the second costs more, as tiles of b come from the
    // second-level cache in time.
    if (c.target_holds_sums) {
      const std::int64_t inner = c.inner_terms();
      const std::int64_t usual =
          std::max(target.l1_bytes * 4 / 3, target.l2_bytes / 16) / (tile_lanes * bytes);
      const std::int64_t most = in.tile && in.tile->terms > 0 ? in.tile->terms : usual;
      plan.depth = std::min(terms, std::max<std::int64_t>(1, most / inner) * inner);
    }
    plan.pack_a =
        c.is_computed() || (c.reduced.size() == 1 &&
                            (!c.a_is_contiguous || rows * terms * bytes > target.l2_bytes / 2));
    const std::int64_t rows_max = target.l2_bytes / 4 / (plan.depth * bytes);
    const std::int64_t tile_rows = (rows + plan.tile.rows - 1) / plan.tile.rows;
    plan.rows =
        std::max<std::int64_t>(1, std::min(tile_rows, rows_max / plan.tile.rows)) * plan.tile.rows;
    constexpr std::int64_t lanes_max = 4096;
    constexpr std::int64_t bytes_max = std::int64_t{32} << 20;  // for the copy of b
    const std::int64_t most = std::min(lanes_max, bytes_max / (plan.depth * bytes));
    plan.lanes =
        std::max<std::int64_t>(1, std::min(lanes + tile_lanes - 1, most) / tile_lanes) * tile_lanes;
  }
  plan.time += overhead(c, plan, target);
  return plan;
}

std::optional<Block> schedule_contraction(Scheduling& in, const StmtPtr& nest) {
  const std::optional<Candidate> along = candidate(in, nest, false);
  const std::optional<Candidate> across = candidate(in, nest, true);
  constexpr double gain_min = 1.05;  // the estimate is no better
  if (across && (!along || across->plan.time * gain_min < along->plan.time)) {
    if (std::optional<Block> made = build_contraction(in, across->c, across->plan)) return made;
  }
  if (!along) return std::nullopt;
  return build_contraction(in, along->c, along->plan);
}

TileChoice choose_tile(std::int64_t rows, std::int64_t lanes, std::int64_t depth, DType type,
                       const Target& target) {
  const std::int64_t free = free_registers(target);
  TileChoice best;
  for (std::int64_t v = 1; v <= 8; ++v) {
    for (std::int64_t r = 1; r * v + v <= free; ++r) {
      const TileChoice here = timed_tile({r, v}, rows, lanes, depth, type, target);
      if (best.time == 0 || here.time < best.time) best = here;
    }
  }
  return best;
}

}  // namespace heddle::jit
