// Contractions in registers and caches, after K. Goto and R. van de Geijn, "Anatomy of
// High-Performance Matrix Multiplication" (ACM TOMS 34, 2008) and BLIS (F. Van Zee and R. van de
// Geijn, ACM TOMS 41, 2015): a tile of sums stays in registers while the terms stream past; blocks
// of both factors are sized to caches and copied, tile after tile, in the order of their use. Pure;
// any thread.
#include "jit/schedule/contraction.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "jit/loop/rewrite.hpp"
#include "jit/schedule/contraction_pack.hpp"
#include "jit/schedule/contraction_tile.hpp"
#include "jit/schedule/tiles.hpp"
#include "jit/vector/lanes.hpp"
#include "jit/vector/value_cost.hpp"

namespace heddle::jit {
namespace {

class Builder {
 public:
  Builder(Scheduling& in, const Contraction& c, const ContractionPlan& plan, bool by_copy)
      : in_(in), c_(c), plan_(plan), tiles_(in, c, plan_, by_copy) {}

  Block build() {
    Block body;
    if (plan_.pack_b || plan_.pack_a) {
      body = around(c_.moving_b, blocks());
    } else {
      std::vector<StmtPtr> others = c_.kept;
      std::erase_if(others,
                    [this](const StmtPtr& loop) { return loop == c_.lane || loop == c_.row; });
      body = around(others, all_tiles(lane_segments(), row_segments(), {}, {}, {},
                                      plan_.outermost == Outermost::rows));
    }
    body.insert(body.begin(), make_comment(describe(), order()));
    return body;
  }

  [[nodiscard]] const std::vector<LocalId>& sums() const { return tiles_.sums(); }

 private:
  DType type() const { return tiles_.type(); }
  std::int64_t tile_lanes() const { return plan_.tile.vectors * tiles_.width(); }
  std::vector<Segment> row_segments() const {
    return balanced_tiles(c_.row ? c_.row->to : 1, plan_.tile.rows);
  }
  std::vector<Segment> lane_segments() const { return whole_tiles(c_.lane->to, tile_lanes()); }

  std::string describe() const {
    std::string text = fmt::format("contraction: tiles of {} x {}", plan_.tile.rows, tile_lanes());
    if (plan_.pack_a || plan_.pack_b) {
      text += fmt::format(", {} terms at a time", plan_.depth);
      if (plan_.words.terms > 1) text += fmt::format(" in words of {}", plan_.words.terms);
      if (plan_.pack_b) text += fmt::format(", b packed by {}", plan_.lanes);
      if (plan_.pack_a) text += fmt::format(", a packed by {}", plan_.rows);
    }
    if (c_.across) text += ", turned to be stored";
    return text;
  }

  /// The order of terms, for sum_orders(). Blocks of terms, and turned sums, are summed separately.
  std::string order() const {
    if (!is_floating(type())) return {};
    const std::string terms = plan_.words.terms > 1 ? "products in pairs" : "products";
    if (plan_.pack_a || plan_.pack_b) {
      if (const Cut cut = cut_terms(); cut.parts > 1)
        return fmt::format("{}, {} terms at a time", terms, cut.depth);
    }
    if (plan_.words.terms > 1) return terms;
    return c_.across && c_.start->kind != ValueKind::constant ? "products, then the start"
                                                              : "products";
  }

  /// The kept loops, with new variables.
  Block around(const std::vector<StmtPtr>& loops, Block body) {
    for (std::size_t k = loops.size(); k-- > 0;) {
      const VarId var = in_.fresh.var();
      Substitution rename;
      rename.loops[loops[k]->var] = var;
      for (StmtPtr& stmt : body) stmt = substitute(stmt, rename);
      Block outer{make_loop(var, 0, loops[k]->to, std::move(body))};
      body = std::move(outer);
    }
    return body;
  }

  Block each(const std::vector<Segment>& segments, const SegmentBody& body,
             bool always_loops = false) {
    return each_tile(in_.fresh, segments, body, always_loops);
  }

  /// All lane tiles of b for each row tile, or all row tiles for each lane tile.
  Block all_tiles(const std::vector<Segment>& lane_tiles, const std::vector<Segment>& row_tiles,
                  const Affine& first_lane, const Affine& first_row, const TermBlock& terms,
                  bool rows_outside = false) {
    const auto tile = [&](const TileSide& row, const TileSide& lane) {
      return tiles_.tile(terms, row, lane);
    };
    const auto along = [&](const std::vector<Segment>& tiles, const Affine& first,
                           const auto& body) {
      return each(tiles, [&](const Affine& inside, std::int64_t count, const Affine& number) {
        return body(TileSide{first, inside, count, number});
      });
    };
    if (rows_outside) {
      return along(row_tiles, first_row, [&](const TileSide& row) {
        return along(lane_tiles, first_lane, [&](const TileSide& lane) { return tile(row, lane); });
      });
    }
    return along(lane_tiles, first_lane, [&](const TileSide& lane) {
      return along(row_tiles, first_row, [&](const TileSide& row) { return tile(row, lane); });
    });
  }

  // Packed blocks of the outermost reduced loop.

  /// How the terms are cut.
  struct Cut {
    std::int64_t parts = 1, depth = 0;
  };

  Cut cut_terms() const {
    const std::int64_t terms = c_.reduced[0]->to;
    const std::int64_t most = plan_.depth / c_.inner_terms();
    Cut cut{(terms + most - 1) / most};
    cut.depth = (terms + cut.parts - 1) / cut.parts;
    cut.depth = (cut.depth + plan_.words.terms - 1) / plan_.words.terms * plan_.words.terms;
    cut.parts = (terms + cut.depth - 1) / cut.depth;
    return cut;
  }

  Block blocks() {
    const Cut cut = cut_terms();
    const TermBlock all = copies(cut);
    Block result = cut.parts > 1 ? start_in_target() : Block();
    const auto lanes = [&](const TermBlock& block) {
      return lane_blocks([&](const Affine& first, const std::vector<Segment>& tiles) {
        return lane_block(block, first, tiles);
      });
    };
    const auto copied = [&](bool is, const auto& copy) {
      if (is) append(result, over_terms(all, cut, copy));
    };
    switch (plan_.outermost) {
      case Outermost::terms:
        append(result, over_terms(all, cut, lanes));
        break;
      case Outermost::lanes:
        copied(all.a.has_value(),
               [&](const TermBlock& block) { return packer_.a(block, {}, row_segments()); });
        append(result, lane_blocks([&](const Affine& first, const std::vector<Segment>& tiles) {
                 return over_terms(all, cut, [&](const TermBlock& block) {
                   return lane_block(block, first, tiles);
                 });
               }));
        break;
      case Outermost::rows:
        copied(all.b.has_value(),
               [&](const TermBlock& block) { return packer_.b(block, {}, lane_segments()); });
        append(result, around(c_.sharing_b, row_blocks([&](const RowBlock& rows) {
                                return over_terms(all, cut, [&](const TermBlock& block) {
                                  return row_block(block, rows, {}, lane_segments());
                                });
                              })));
        break;
    }
    return result;
  }

  /// Scratch for blocks of the factors, or for a whole factor where the plan copies the whole.
  TermBlock copies(const Cut& cut) {
    const std::int64_t words = (cut.depth + plan_.words.terms - 1) / plan_.words.terms;
    const std::int64_t kept = words * c_.inner_terms() + in_.target.profile.terms_ahead;
    TermBlock all;
    if (plan_.pack_b) {
      const std::int64_t tiles = plan_.outermost == Outermost::rows
                                     ? cut.parts * num_tiles(lane_segments())
                                     : (plan_.lanes + tile_lanes() - 1) / tile_lanes();
      all.b = in_.add_scratch("packed b", plan_.words.type, {tiles, kept, tile_lanes()});
      if (plan_.words.a_raised)
        all.added = in_.add_scratch("added by raising a", type(), {tiles, tile_lanes()});
    }
    if (plan_.pack_a) {
      const std::int64_t tiles = plan_.outermost == Outermost::lanes
                                     ? cut.parts * num_tiles(row_segments())
                                     : plan_.rows / plan_.tile.rows;
      all.a = in_.add_scratch("packed a", plan_.words.type, {tiles, kept, plan_.tile.rows});
    }
    return all;
  }

  /// The body for each block of terms, in order: as a loop, or unrolled where the blocks are few
  /// and each makes work for several processors.
  template <class Body>
  Block over_terms(const TermBlock& all, const Cut& cut, const Body& body) {
    constexpr std::int64_t few = 4;
    // In a factor that is copied whole, every block of terms has separate tiles.
    const std::int64_t of_a = plan_.outermost == Outermost::lanes ? num_tiles(row_segments()) : 0;
    const std::int64_t of_b = plan_.outermost == Outermost::rows ? num_tiles(lane_segments()) : 0;
    const auto begin_at = [&](TermBlock& block, const Affine& p) {
      block.first = affine_scale(p, cut.depth);
      block.first_a = affine_scale(p, of_a);
      block.first_b = affine_scale(p, of_b);
    };
    TermBlock middle = all, last = all;
    last.count = c_.reduced[0]->to - (cut.parts - 1) * cut.depth;
    begin_at(last, Affine{cut.parts - 1, {}});
    last.sums_in_target = cut.parts > 1;
    middle.count = cut.depth;
    middle.sums_in_target = middle.more_terms = true;
    Block result;
    if (plan_.spread && cut.parts <= few) {
      for (std::int64_t p = 0; p + 1 < cut.parts; ++p) {
        begin_at(middle, Affine{p, {}});
        append(result, body(middle));
      }
    } else if (cut.parts > 1) {
      const VarId p = in_.fresh.var();
      begin_at(middle, affine_var(p));
      result.push_back(make_loop(p, 0, cut.parts - 1, body(middle)));
    }
    append(result, body(last));
    return result;
  }

  /// Stores the start value in the target, where the target holds the sums between blocks of terms.
  Block start_in_target() {
    const bool is_target =
        c_.start->kind == ValueKind::load && c_.start->buffer == c_.store->buffer;
    if (is_target) return {};
    const StmtPtr& along = c_.across ? c_.row : c_.lane;
    const StmtPtr& other = c_.across ? c_.lane : c_.row;
    const StmtPtr begin = make_store(c_.store->buffer, c_.store->subscripts, c_.start);
    const auto lines = [&](const Affine& line) {
      return each(whole_tiles(along->to, 4 * tiles_.width()),
                  [&](const Affine& first, std::int64_t count, const Affine&) {
                    const VarId l = in_.fresh.var();
                    TileBuilder::Where where{{along->var, plus(first, affine_var(l))}};
                    if (other) where[other->var] = line;
                    return Block{lanes_loop(l, count, substitute(begin, {where, {}, {}, {}, {}}))};
                  });
    };
    return around(c_.sharing_b, each(balanced_tiles(other ? other->to : 1, 1),
                                     [&](const Affine& line, std::int64_t, const Affine&) {
                                       return lines(line);
                                     }));
  }

  template <class Body>
  Block lane_blocks(const Body& body) {
    Block result;
    for (const TileGroup& group : grouped(lane_segments(), plan_.lanes / tile_lanes())) {
      append(result, each(
                         {group.block},
                         [&](const Affine& first, std::int64_t, const Affine&) {
                           return body(first, group.tiles);
                         },
                         plan_.outermost == Outermost::lanes));
    }
    return result;
  }

  Block lane_block(const TermBlock& terms, const Affine& first, const std::vector<Segment>& tiles) {
    Block body;
    if (terms.b) body = packer_.b(terms, first, tiles);
    append(body, around(c_.sharing_b, row_blocks([&](const RowBlock& rows) {
                          return row_block(terms, rows, first, tiles);
                        })));
    return body;
  }

  struct RowBlock {
    const std::vector<Segment>& tiles;
    Affine first;         ///< index of the first row
    Affine tiles_before;  ///< number of tiles in all blocks before
  };
  template <class Body>
  Block row_blocks(const Body& body) {
    Block result;
    const bool apart = plan_.spread && plan_.outermost != Outermost::lanes && c_.sharing_b.empty();
    for (const TileGroup& group : grouped(row_segments(), plan_.rows / plan_.tile.rows)) {
      append(result, each(
                         {group.block},
                         [&](const Affine& first, std::int64_t, const Affine& number) {
                           const Affine before = affine_scale(number, num_tiles(group.tiles));
                           return body(RowBlock{group.tiles, first, plus(before, group.first)});
                         },
                         apart));
    }
    return result;
  }

  Block row_block(const TermBlock& terms, const RowBlock& rows, const Affine& first_lane,
                  const std::vector<Segment>& lanes) {
    Block body;
    TermBlock here = terms;
    if (plan_.outermost == Outermost::lanes) {
      here.first_a = plus(terms.first_a, rows.tiles_before);
    } else if (terms.a) {
      body = packer_.a(terms, rows.first, rows.tiles);
    }
    append(body, all_tiles(lanes, rows.tiles, first_lane, rows.first, here));
    return body;
  }

  static StmtPtr lanes_loop(VarId var, std::int64_t extent, StmtPtr body) {
    return make_loop(var, 0, extent, {std::move(body)}, LoopMark::lanes);
  }

  Scheduling& in_;
  const Contraction& c_;
  const ContractionPlan plan_;
  TileBuilder tiles_;
  Packer packer_{in_, c_, plan_, tiles_};
};

/// The most steps after a sum that are repeated for each vector of a tile, in whose registers the
/// sums are: longer code works on a copy of the sums, in a loop.
constexpr int unrolled_cost_max = 16;

bool has_long_after(const Contraction& c) {
  int cost = 0;
  for (const StmtPtr& stmt : c.after) {
    if (stmt->value) cost += cost_of(*stmt->value);
  }
  return cost > unrolled_cost_max;
}

}  // namespace

std::optional<Block> build_contraction(Scheduling& in, const Contraction& c,
                                       const ContractionPlan& plan) {
  const std::size_t buffers = in.lowered.loop.buffers.size();
  if (!c.across && has_long_after(c)) return Builder(in, c, plan, true).build();
  Builder plain(in, c, plan, false);
  Block body = plain.build();
  const LanePlan lanes = plan_lanes(in.lowered.loop.buffers, body, in.target);
  const auto stays = [&](LocalId sum) {
    return c.across ? lanes.turned.contains(sum) : lanes.in_registers.contains(sum);
  };
  if (std::ranges::all_of(plain.sums(), stays)) return body;
  in.drop_scratch(buffers);
  if (c.across) return std::nullopt;
  return Builder(in, c, plan, true).build();
}

}  // namespace heddle::jit
