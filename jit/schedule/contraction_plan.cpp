// The decisions about a contraction: a register tile by a model of the inner loop, blocks by cache
// sizes. Pure; any thread.
#include <fmt/format.h>

#include <algorithm>

#include "heddle/status.hpp"
#include "jit/schedule/contraction.hpp"
#include "jit/schedule/gpu_contraction.hpp"
#include "jit/schedule/tiles.hpp"
#include "jit/schedule/words.hpp"

namespace heddle::jit {

namespace {

/// Costs of a tile, in half cycles: starting and storing the tile, each sum, each vector of sums
/// that is turned before the store. Measured on AMD EPYC and Intel Xeon with AVX-512. The costs are
/// the same on every machine, because tiles decide where long sums are cut (W1).
constexpr double tile_start = 120, tile_sum = 5, tile_turn = 8;

std::int64_t product_of(const std::vector<StmtPtr>& loops) {
  std::int64_t product = 1;
  for (const StmtPtr& loop : loops) product *= loop->to;
  return product;
}

/// Bytes of `terms` terms of a row, or lane, in a factor's copy.
std::int64_t bytes_of(std::int64_t terms, const ContractionPlan& plan, DType type) {
  return terms * static_cast<std::int64_t>(size_of(type)) / plan.words.terms;
}

/// Time, in half cycles, to copy so many elements to tiles of `tile` elements: a vector at a time,
/// where a partial vector needs a mask; or an element at a time.
double copy_time(double elements, bool contiguous, std::int64_t tile, std::int64_t width) {
  constexpr double element = 2, full = 0.25, part = 8;
  if (!contiguous) return elements * element;
  const double vectors = full * static_cast<double>(tile / width * width);
  return elements / static_cast<double>(tile) * (vectors + (tile % width > 0 ? part : 0));
}

/// The time of copies and of turning sums.
double overhead(const Contraction& c, const ContractionPlan& plan, const Target& target) {
  const auto rows = static_cast<double>(c.row ? c.row->to : 1);
  const auto lanes = static_cast<double>(c.lane->to);
  const auto terms = static_cast<double>(product_of(c.reduced));
  const auto moving = static_cast<double>(product_of(c.moving_b));
  const double all = moving * static_cast<double>(product_of(c.sharing_b));
  double time = 0;
  const std::int64_t width = target.lanes(c.type);
  if (plan.pack_b) {
    const std::int64_t tile = plan.tile.vectors * width;
    time += moving * copy_time(terms * lanes, c.b_is_contiguous, tile, width);
  }
  if (plan.pack_a)
    time += all * copy_time(rows * terms, c.rows_are_contiguous, plan.tile.rows, width);
  if (c.across) time += all * rows * lanes / static_cast<double>(width) * tile_turn;
  return time;
}

TileChoice timed_tile(const RegisterTile& tile, std::int64_t rows, std::int64_t lanes,
                      std::int64_t depth, DType type, const Target& target) {
  const std::int64_t width = target.lanes(type);
  // Per step, in half cycles: two multiply-adds and two loads a cycle; a chain of sums takes four
  // cycles.
  const auto step = [](std::int64_t r, std::int64_t v) {
    return static_cast<double>(std::max({r * v, r + v, std::int64_t{8}}));
  };
  double time = 0;
  for (const Segment& row : balanced_tiles(rows, tile.rows)) {
    for (const Segment& lane : whole_tiles(lanes, tile.vectors * width)) {
      const std::int64_t vectors = (lane.size + width - 1) / width;
      time += static_cast<double>(row.count * lane.count) *
              (static_cast<double>(depth) * step(row.size, vectors) + tile_start +
               tile_sum * static_cast<double>(row.size * vectors));
    }
  }
  return {tile, time};
}

/// Where the work is enough for several processors, chooses blocks of about equal size that may run
/// in parallel.
void spread_out(const Scheduling& in, const Contraction& c, ContractionPlan& plan) {
  constexpr std::int64_t blocks_wanted = 8;                    // some for each of a few processors
  constexpr std::int64_t copied_max = std::int64_t{64} << 20;  // bytes of a factor
  const Target& target = in.target;
  const std::int64_t rows = c.row->to, lanes = c.lane->to, terms = product_of(c.reduced);
  const std::int64_t tile_lanes = plan.tile.vectors * target.lanes(c.type);
  const std::int64_t lane_tiles = (lanes + tile_lanes - 1) / tile_lanes;
  const std::int64_t row_tiles = (rows + plan.tile.rows - 1) / plan.tile.rows;
  const double work =
      static_cast<double>(rows) * static_cast<double>(lanes) * static_cast<double>(terms);
  const auto least = static_cast<double>(blocks_wanted * target.profile.part_bytes);
  if (!in.is_top || work < least || !c.moving_b.empty()) return;
  plan.spread = true;
  if (!plan.pack_a && !plan.pack_b) {
    if (lane_tiles < blocks_wanted && row_tiles > lane_tiles) plan.outermost = Outermost::rows;
    return;
  }
  const bool alone = c.sharing_b.empty();  // otherwise the iterations of sharing_b run in parallel
  if (alone && lane_tiles >= blocks_wanted && rows * bytes_of(terms, plan, c.type) <= copied_max) {
    const std::int64_t most = std::max<std::int64_t>(
        1, target.l2_bytes / 4 / (bytes_of(plan.depth, plan, c.type) * tile_lanes));
    plan.lanes = std::min(lane_tiles / blocks_wanted, most) * tile_lanes;
    plan.outermost = Outermost::lanes;
    return;
  }
  // Consecutive blocks of terms, each divided into parts, use a block of b while it is in the
  // cache. With many blocks, parts would wait for each other too often.
  constexpr std::int64_t few = 4;
  if (plan.depth * few < terms && lanes * bytes_of(terms, plan, c.type) <= copied_max)
    plan.outermost = Outermost::rows;
  if (!alone) return;
  const std::int64_t each = std::max<std::int64_t>(1, row_tiles / blocks_wanted);
  plan.rows = std::min(plan.rows, each * plan.tile.rows);
}

struct ContractionWay {
  Contraction c;
  ContractionPlan plan;
  double model_time;  ///< estimate for the model's own plan
};

std::optional<ContractionWay> find_way(const Scheduling& in, const StmtPtr& nest, bool across) {
  std::optional<Contraction> c = find_contraction(in.lowered.loop, nest, across);
  if (!c) return std::nullopt;
  const ContractionPlan plan = plan_contraction(in, *c);
  // Copying b pays off where b is used often.
  constexpr std::int64_t uses_min = 4;
  const bool used = c->row && c->row->to * product_of(c->sharing_b) >= uses_min;
  if (!c->b_is_contiguous && !(plan.pack_b && used)) return std::nullopt;
  double model_time = plan.time;
  if (!in.choices.empty()) {
    Scheduling model = in;
    model.choices = {};
    model_time = plan_contraction(model, *c).time;
  }
  return ContractionWay{*std::move(c), plan, model_time};
}

/// Chooses which factors are copied, where the choice is free.
void choose_copies(const Scheduling& in, const Contraction& c, ContractionPlan& plan) {
  const bool required = c.is_computed() || plan.words.terms > 1;
  if (in.choices.pack_a) plan.pack_a = required || *in.choices.pack_a;
  if (in.choices.pack_b) plan.pack_b = required || !c.b_is_contiguous || *in.choices.pack_b;
}

}  // namespace

std::int64_t tile_registers(const Target& target) {
  // All registers but one for an element of a in all lanes and, without fma, one for a product.
  return target.vector_registers() - (target.has_fma() ? 1 : 2);
}

void check_tile(const ContractionTile& tile, const Target& target) {
  if (tile.rows < 1 || tile.vectors < 1 || tile.terms < 0) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("contraction_tile has {} rows of {} vectors, {} terms at a time; rows "
                            "and vectors begin at 1, terms at 0",
                            tile.rows, tile.vectors, tile.terms));
  }
  if (target.is_gpu()) return check_gpu_tile(tile);
  const std::int64_t free = tile_registers(target);
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
  plan.words = words_for(c, target, in.fast_math);
  const std::int64_t per_word = plan.words.terms;
  const std::int64_t steps = (terms + per_word - 1) / per_word;
  TileChoice choice =
      in.tile ? timed_tile({in.tile->rows, in.tile->vectors}, rows, lanes, steps, type, target)
              : choose_tile(rows, lanes, steps, type, target);
  // Copies of factors and cuts of long sums follow the model's tile, whichever tile is chosen: the
  // order of sums does not depend on the choice.
  const RegisterTile model = choice.tile;
  const std::int64_t model_lanes = model.vectors * target.lanes(type);
  if (const auto& chosen = in.choices.tile; chosen && !in.tile)
    choice = timed_tile({chosen->rows, chosen->vectors}, rows, lanes, steps, type, target);
  plan.tile = choice.tile;
  const std::int64_t tile_lanes = plan.tile.vectors * target.lanes(type);
  plan.depth = terms;
  plan.rows = rows;
  plan.lanes = lanes;
  plan.time = choice.time * static_cast<double>(product_of(c.moving_b) * shared);
  if (!c.row) return plan;
  // Rows of b are far apart: b is copied where it does not fit, with the other data, in half the
  // second-level cache. Windows of a convolution overlap, and fit.
  const bool fits = c.reduced.size() > 1 || terms * lanes * bytes <= target.l2_bytes / 4;
  // The rows of one or two tiles are already adjacent: blocks of such rows need no copy.
  const bool asked = in.choices.pack_a.value_or(false) || in.choices.pack_b.value_or(false);
  const bool blocked = !c.b_is_contiguous || c.is_computed() || per_word > 1 || asked ||
                       (!fits && rows * shared >= 4 * model.rows);
  plan.pack_b =
      !c.b_is_contiguous || c.is_computed() || per_word > 1 || (blocked && lanes > 2 * model_lanes);
  plan.prefetch = (rows * terms + terms * lanes + rows * lanes) * bytes > target.l2_bytes;
  if (blocked) {
    // Longer sums push a tile of b out of the first-level cache; shorter sums are stored and loaded
    // more often. Measurements show the second to cost more, as tiles of b arrive from the
    // second-level cache in time.
    if (c.target_holds_sums) {
      const std::int64_t inner = c.inner_terms();
      const std::int64_t usual = std::max(target.l1_bytes * 4 / 3, target.l2_bytes / 16) /
                                 (model_lanes * bytes) * per_word;
      std::int64_t most = in.tile && in.tile->terms > 0 ? in.tile->terms : usual;
      if (in.choices.terms && !in.tile) most = *in.choices.terms > 0 ? *in.choices.terms : terms;
      plan.depth = std::min(terms, std::max<std::int64_t>(1, most / inner) * inner);
    }
    plan.pack_a = c.is_computed() || per_word > 1 ||
                  (c.reduced.size() == 1 &&
                   (!c.a_is_contiguous || rows * terms * bytes > target.l2_bytes / 2));
    choose_copies(in, c, plan);
    const std::int64_t rows_max = target.l2_bytes / 4 / bytes_of(plan.depth, plan, type);
    const std::int64_t tile_rows = (rows + plan.tile.rows - 1) / plan.tile.rows;
    plan.rows =
        std::max<std::int64_t>(1, std::min(tile_rows, rows_max / plan.tile.rows)) * plan.tile.rows;
    constexpr std::int64_t lanes_max = 4096;
    constexpr std::int64_t bytes_max = std::int64_t{32} << 20;  // for the copy of b
    const std::int64_t most = std::min(lanes_max, bytes_max / bytes_of(plan.depth, plan, type));
    plan.lanes =
        std::max<std::int64_t>(1, std::min(lanes + tile_lanes - 1, most) / tile_lanes) * tile_lanes;
  }
  spread_out(in, c, plan);
  plan.time += overhead(c, plan, target);
  return plan;
}

std::optional<Block> schedule_contraction(Scheduling& in, const StmtPtr& nest) {
  const std::optional<ContractionWay> along = find_way(in, nest, false);
  const std::optional<ContractionWay> across = find_way(in, nest, true);
  constexpr double gain_min = 1.05;  // the estimate is no more precise
  // The decision uses the model's time, whichever tile is chosen: turned sums may begin
  // differently.
  const bool turns = across && (!along || across->model_time * gain_min < along->model_time);
  if (across && (!along || in.choices.turned.value_or(turns))) {
    if (std::optional<Block> made = build_contraction(in, across->c, across->plan)) return made;
  }
  if (!along) return std::nullopt;
  return build_contraction(in, along->c, along->plan);
}

TileChoice choose_tile(std::int64_t rows, std::int64_t lanes, std::int64_t depth, DType type,
                       const Target& target) {
  const std::int64_t free = tile_registers(target);
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
