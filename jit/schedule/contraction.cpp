// Contractions in registers and caches, after K. Goto and R. van de Geijn, "Anatomy of
// High-Performance Matrix Multiplication" (ACM TOMS 34, 2008) and BLIS (F. Van Zee and R. van de
// Geijn, ACM TOMS 41, 2015): a tile of sums stays in registers while the terms stream past; blocks
// of both factors are sized to caches and copied, tile after tile, in the order of their use. Pure;
// any thread.
#include "jit/schedule/contraction.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "jit/loop/rewrite.hpp"
#include "jit/schedule/contraction_tile.hpp"
#include "jit/schedule/tiles.hpp"
#include "jit/schedule/transpose.hpp"
#include "jit/vector/lanes.hpp"

namespace heddle::jit {
namespace {

/// Tiles of a block of elements, and the block.
struct TileGroup {
  Segment block;
  std::vector<Segment> tiles;
};

/// Blocks of `per_block` tiles, and what is left.
std::vector<TileGroup> grouped(const std::vector<Segment>& tiles, std::int64_t per_block) {
  std::int64_t count = 0;
  for (const Segment& tile : tiles) count += tile.count;
  const std::int64_t extent = tiles.back().offset + tiles.back().count * tiles.back().size;
  if (count <= per_block) return {{{0, 1, extent}, tiles}};
  std::vector<TileGroup> blocks;
  for (const Segment& tile : tiles) {
    for (const Segment& group : whole_tiles(tile.count, per_block)) {
      blocks.push_back(
          {{tile.offset + group.offset * tile.size, group.count, group.size * tile.size},
           {{0, group.size, tile.size}}});
    }
  }
  return blocks;
}

/// What is inside of loops over segments: where it begins, how long it is, and its number.
using SegmentBody =
    std::function<Block(const Affine& base, std::int64_t size, const Affine& number)>;

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
      body = around(others, all_tiles(lane_segments(), row_segments(), {}, {}, {}));
    }
    body.insert(body.begin(), make_comment(describe()));
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
      if (plan_.pack_b) text += fmt::format(", b packed by {}", plan_.lanes);
      if (plan_.pack_a) text += fmt::format(", a packed by {}", plan_.rows);
    }
    if (c_.across) text += ", turned to be stored";
    return text;
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

  /// A loop over each segment's tiles; none around a single one.
  Block each(const std::vector<Segment>& segments, const SegmentBody& body) {
    Block result;
    Affine first;  // number of the segment's first tile
    for (const Segment& segment : segments) {
      if (segment.count == 1) {
        const Block once = body(Affine{segment.offset, {}}, segment.size, first);
        result.insert(result.end(), once.begin(), once.end());
      } else {
        const VarId var = in_.fresh.var();
        const Affine base = plus(affine_var(var, segment.size), segment.offset);
        result.push_back(make_loop(var, 0, segment.count,
                                   body(base, segment.size, plus(affine_var(var), first))));
      }
      first.constant += segment.count;
    }
    return result;
  }

  Block all_tiles(const std::vector<Segment>& lane_tiles, const std::vector<Segment>& row_tiles,
                  const Affine& first_lane, const Affine& first_row, const TermBlock& terms) {
    return each(lane_tiles, [&](const Affine& lane, std::int64_t lanes, const Affine& lane_tile) {
      return each(row_tiles, [&](const Affine& row, std::int64_t rows, const Affine& row_tile) {
        return tiles_.tile(terms, {first_row, row, rows, row_tile},
                           {first_lane, lane, lanes, lane_tile});
      });
    });
  }

  // Blocks of the outermost reduced loop, packed.

  Block blocks() {
    const std::int64_t terms = c_.reduced[0]->to;
    const std::int64_t most = plan_.depth / c_.inner_terms();
    const std::int64_t parts = (terms + most - 1) / most;
    const std::int64_t depth = (terms + parts - 1) / parts;
    const std::int64_t kept = depth * c_.inner_terms() + in_.target.profile.terms_ahead;
    TermBlock last;
    if (plan_.pack_b) {
      const std::int64_t tiles = (plan_.lanes + tile_lanes() - 1) / tile_lanes();
      last.b = in_.add_scratch("packed b", type(), {tiles, kept, tile_lanes()});
    }
    if (plan_.pack_a) {
      last.a = in_.add_scratch("packed a", type(),
                               {plan_.rows / plan_.tile.rows, kept, plan_.tile.rows});
    }
    Block result;
    last.count = terms - (parts - 1) * depth;
    last.first = Affine{(parts - 1) * depth, {}};
    if (parts > 1) {
      Block begin = start_in_target();
      result.insert(result.end(), begin.begin(), begin.end());
      const VarId p = in_.fresh.var();
      TermBlock middle = last;
      middle.count = depth;
      middle.first = affine_var(p, depth);
      middle.sums_in_target = middle.more_terms = last.sums_in_target = true;
      result.push_back(make_loop(p, 0, parts - 1, lane_blocks(middle)));
    }
    Block end = lane_blocks(last);
    result.insert(result.end(), end.begin(), end.end());
    return result;
  }

  /// Where sums are kept in the target between blocks of terms, they start there.
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

  Block lane_blocks(const TermBlock& terms) {
    Block result;
    for (const TileGroup& group : grouped(lane_segments(), plan_.lanes / tile_lanes())) {
      const Block here = each({group.block}, [&](const Affine& first, std::int64_t, const Affine&) {
        Block body;
        if (terms.b) body = pack_b(terms, first, group.tiles);
        Block rest = around(c_.sharing_b, row_blocks(terms, first, group.tiles));
        body.insert(body.end(), rest.begin(), rest.end());
        return body;
      });
      result.insert(result.end(), here.begin(), here.end());
    }
    return result;
  }

  Block row_blocks(const TermBlock& terms, const Affine& first_lane,
                   const std::vector<Segment>& lanes) {
    Block result;
    for (const TileGroup& group : grouped(row_segments(), plan_.rows / plan_.tile.rows)) {
      const Block here = each({group.block}, [&](const Affine& first, std::int64_t, const Affine&) {
        Block body;
        if (terms.a) body = pack_a(terms, first, group.tiles);
        Block rest = all_tiles(lanes, group.tiles, first_lane, first, terms);
        body.insert(body.end(), rest.begin(), rest.end());
        return body;
      });
      result.insert(result.end(), here.begin(), here.end());
    }
    return result;
  }

  Block pack_b(const TermBlock& terms, const Affine& first, const std::vector<Segment>& tiles) {
    const auto element = [&](const TileSide& lane, const TermLoops& term, const Affine& l) {
      auto where = tiles_.at({}, {}, lane, l);
      where.insert(term.at.begin(), term.at.end());
      return copied(c_.b, tiles_.factor_b(terms, where, lane, term.number, l), where);
    };
    return pack_tiles(terms, first, tiles, c_.b_is_contiguous, element);
  }

  Block pack_a(const TermBlock& terms, const Affine& first, const std::vector<Segment>& tiles) {
    const auto element = [&](const TileSide& row, const TermLoops& term, const Affine& r) {
      auto where = tiles_.at(row, r, {}, {});
      where.insert(term.at.begin(), term.at.end());
      return copied(c_.a, tiles_.factor_a(terms, where, row, term.number, r), where);
    };
    return pack_tiles(terms, first, tiles, c_.rows_are_contiguous, element);
  }

  /// Along whole rows of what is read, where those are contiguous: lines are read once.
  template <class Element>
  Block pack_tiles(const TermBlock& terms, const Affine& first, const std::vector<Segment>& tiles,
                   bool contiguous, const Element& element) {
    const auto one_term = [&](const TermLoops& term, const TileSide& side, LoopMark mark) {
      const VarId place = in_.fresh.var();
      return make_loop(place, 0, side.count, {element(side, term, affine_var(place))}, mark);
    };
    if (contiguous) {
      const TermLoops term = tiles_.term_loops(terms);
      return tiles_.around(
          term, each(tiles, [&](const Affine& inside, std::int64_t count, const Affine& number) {
            return Block{one_term(term, {first, inside, count, number}, LoopMark::lanes)};
          }));
    }
    return each(tiles, [&](const Affine& inside, std::int64_t count, const Affine& number) {
      const TermLoops term = tiles_.term_loops(terms);
      const TileSide side{first, inside, count, number};
      const Block plain = tiles_.around(term, {one_term(term, side, LoopMark::serial)});
      if (plain.size() == 1) {
        if (std::optional<Block> turned = schedule_transpose(in_, plain.front())) return *turned;
      }
      return tiles_.around(term, {one_term(term, side, LoopMark::unroll)});
    });
  }

  static StmtPtr copied(const ValuePtr& from, const ValuePtr& to, const TileBuilder::Where& at) {
    return make_store(to->buffer, to->subscripts, substitute(from, {at, {}, {}, {}, {}}));
  }
  static StmtPtr lanes_loop(VarId var, std::int64_t extent, StmtPtr body) {
    return make_loop(var, 0, extent, {std::move(body)}, LoopMark::lanes);
  }

  Scheduling& in_;
  const Contraction& c_;
  const ContractionPlan plan_;
  TileBuilder tiles_;
};

}  // namespace

std::optional<Block> build_contraction(Scheduling& in, const Contraction& c,
                                       const ContractionPlan& plan) {
  const std::size_t buffers = in.lowered.loop.buffers.size();
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
