// Contractions in registers and caches, after K. Goto and R. van de Geijn, "Anatomy of
// High-Performance Matrix Multiplication" (ACM TOMS 34, 2008) and BLIS (F. Van Zee and R. van de
// Geijn, ACM TOMS 41, 2015): a tile of sums stays in registers while the terms stream past; blocks
// of both factors are sized to caches and packed where their rows would collide there. Pure; any
// thread.
#include "jit/schedule_contraction.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>

#include "jit/emit.hpp"
#include "jit/lanes.hpp"
#include "jit/rewrite.hpp"

namespace heddle::jit {
namespace {

using Where = std::map<VarId, Affine>;

Affine plus(const Affine& a, const Affine& b) { return affine_add(a, b); }
Affine plus(const Affine& a, std::int64_t b) { return affine_add(a, Affine{b, {}}); }

StmtPtr lanes_loop(VarId var, std::int64_t extent, StmtPtr body) {
  return make_loop(var, 0, extent, {std::move(body)}, LoopMark::lanes);
}

/// A block of the factors: where it begins, and where its copies are.
struct Part {
  bool sums_in_target = false;  // earlier terms were summed there
  bool more_terms = false;      // to come: the sum goes to the target as it is
  Affine first_term;
  std::optional<std::int64_t> terms;  // of the one reduced loop; none: all of all loops
  std::optional<BufferId> a, b;
  bool a_by_row = false;  // a's copy is [row, term], else [term, row]
};

class Builder {
 public:
  Builder(Scheduling& in, const Contraction& c, const ContractionPlan& plan, bool copy_out)
      : in_(in), c_(c), plan_(plan), copy_out_(copy_out) {}

  Block build() {
    Block body;
    if (plan_.pack_b || plan_.pack_a) {
      body = blocks();
    } else {
      body = all_tiles(lane_segments(lanes()), row_segments(), {}, {});
    }
    for (std::size_t k = c_.kept.size(); k-- > 0;) {
      const StmtPtr& loop = c_.kept[k];
      if (loop == c_.lane || loop == c_.row) continue;
      const VarId var = in_.fresh.var();
      Substitution rename;
      rename.loops[loop->var] = var;
      for (StmtPtr& stmt : body) stmt = substitute(stmt, rename);
      Block outer{make_loop(var, 0, loop->to, std::move(body))};
      body = std::move(outer);
    }
    body.insert(body.begin(), make_comment(describe()));
    return body;
  }

  /// The blocks of sums made: they are to live in registers.
  std::vector<LocalId> sums;

 private:
  std::int64_t rows() const { return c_.row ? c_.row->to : 1; }
  std::int64_t lanes() const { return c_.lane->to; }
  std::int64_t width() const { return in_.target.lanes(type()); }
  DType type() const { return c_.a->dtype; }
  std::int64_t tile_lanes() const { return plan_.tile.vectors * width(); }
  std::vector<Segment> row_segments() const { return balanced_tiles(rows(), plan_.tile.rows); }
  std::vector<Segment> lane_segments(std::int64_t extent) const {
    return whole_tiles(extent, tile_lanes());
  }

  std::string describe() const {
    std::string text = fmt::format("contraction: tiles of {} x {}", plan_.tile.rows, tile_lanes());
    if (plan_.pack_a || plan_.pack_b) {
      text += fmt::format(", {} terms at a time", plan_.depth);
      if (plan_.pack_b) text += fmt::format(", b packed by {}", plan_.lanes);
      if (plan_.pack_a) text += fmt::format(", a packed by {}", plan_.rows);
    }
    return text;
  }

  /// A loop over each segment's tiles; none around a single one.
  Block each(const std::vector<Segment>& segments,
             const std::function<Block(const Affine& base, std::int64_t size)>& body) {
    Block result;
    for (const Segment& segment : segments) {
      if (segment.count == 1) {
        const Block once = body(Affine{segment.offset, {}}, segment.size);
        result.insert(result.end(), once.begin(), once.end());
        continue;
      }
      const VarId var = in_.fresh.var();
      const Affine base = plus(affine_var(var, segment.size), segment.offset);
      result.push_back(make_loop(var, 0, segment.count, body(base, segment.size)));
    }
    return result;
  }

  Block all_tiles(const std::vector<Segment>& lane_tiles, const std::vector<Segment>& row_tiles,
                  const Affine& first_lane, const Affine& first_row, const Part& part = {}) {
    return each(lane_tiles, [&](const Affine& lane, std::int64_t lane_count) {
      return each(row_tiles, [&](const Affine& row, std::int64_t row_count) {
        return tile(part, {first_row, row, row_count}, {first_lane, lane, lane_count});
      });
    });
  }

  /// Elements of a tile on one side: block + inside + 0..count.
  struct Side {
    Affine block, inside;
    std::int64_t count;
  };

  Where at(const Side& row, const Affine& r, const Side& lane, const Affine& l) const {
    Where where{{c_.lane->var, plus(plus(lane.block, lane.inside), l)}};
    if (c_.row) where[c_.row->var] = plus(plus(row.block, row.inside), r);
    return where;
  }

  /// One tile of sums, from start to store.
  Block tile(const Part& part, const Side& row, const Side& lane) {
    const LocalId sum = in_.fresh.local();
    sums.push_back(sum);
    const ValuePtr zero = make_constant(Scalar::of_float(type(), 0));
    const ValuePtr start = part.sums_in_target ? zero : c_.start;
    const bool constant = start->kind == ValueKind::constant;
    Block body{make_declare(sum, constant ? start : zero, {row.count, lane.count})};
    if (!constant) {
      body.push_back(over_tile(row, lane, [&](const Where& where, auto& sum_at) {
        return Block{make_assign(sum, substitute(start, {where, {}, {}, {}, {}}), sum_at)};
      }));
    }
    if (plan_.prefetch) body.push_back(prefetch(row, lane));
    Block terms = sum_terms(part, sum, row, lane);
    body.insert(body.end(), terms.begin(), terms.end());
    if (part.sums_in_target) {  // by now these lines have come
      body.push_back(over_tile(row, lane, [&](const Where& where, auto& sum_at) {
        const ValuePtr before = substitute(
            make_load(c_.store->buffer, type(), c_.store->subscripts), {where, {}, {}, {}, {}});
        const ValuePtr here = make_local(sum, type(), sum_at);
        return Block{make_assign(sum, make_op(Op::add, {before, here}), sum_at)};
      }));
    }
    Block stored = store(part, sum, row, lane);
    body.insert(body.end(), stored.begin(), stored.end());
    return body;
  }

  /// The lines that the tile will be stored to, while its terms are summed.
  StmtPtr prefetch(const Side& row, const Side& lane) {
    const VarId r = in_.fresh.var();
    const VarId v = in_.fresh.var();
    const std::int64_t vectors = (lane.count + width() - 1) / width();
    const StmtPtr one = make_prefetch(c_.store->buffer, c_.store->subscripts);
    const Where where = at(row, affine_var(r), lane, affine_var(v, width()));
    return make_loop(
        r, 0, row.count,
        {make_loop(v, 0, vectors, {substitute(one, {where, {}, {}, {}, {}})}, LoopMark::unroll)},
        LoopMark::unroll);
  }

  /// unroll r { lanes l { body } }
  template <class Body>
  StmtPtr over_tile(const Side& row, const Side& lane, const Body& body,
                    LoopMark mark = LoopMark::unroll) {
    const VarId r = in_.fresh.var();
    const VarId l = in_.fresh.var();
    std::vector<Affine> sum_at{affine_var(r), affine_var(l)};
    const Where where = at(row, affine_var(r), lane, affine_var(l));
    return make_loop(
        r, 0, row.count,
        {make_loop(l, 0, lane.count, body(where, std::as_const(sum_at)), LoopMark::lanes)}, mark);
  }

  /// The reduced loops around one step: a row of b, and the multiply-adds of the tile.
  Block sum_terms(const Part& part, LocalId sum, const Side& row, const Side& lane) {
    std::vector<VarId> vars;
    Where terms;
    for (const StmtPtr& loop : c_.reduced) {
      vars.push_back(in_.fresh.var());
      terms[loop->var] = plus(affine_var(vars.back()), part.first_term);
    }
    const Affine term = affine_var(vars.back());
    const LocalId b_row = in_.fresh.local();
    const VarId l = in_.fresh.var();
    Where where = at(row, {}, lane, affine_var(l));
    where.insert(terms.begin(), terms.end());
    Block step{make_declare(b_row, make_constant(Scalar::of_float(type(), 0)), {lane.count}),
               lanes_loop(l, lane.count,
                          make_assign(b_row, factor_b(part, where, lane, term, affine_var(l)),
                                      {affine_var(l)}))};
    step.push_back(over_tile(row, lane, [&](Where here, const std::vector<Affine>& sum_at) {
      here.insert(terms.begin(), terms.end());
      const ValuePtr a = factor_a(part, here, row, term, sum_at[0]);
      const ValuePtr b = make_local(b_row, type(), {sum_at[1]});
      const ValuePtr so_far = make_local(sum, type(), sum_at);
      ValuePtr next = in_.target.has_fma() || !is_floating(type())
                          ? make_op(Op::fma, {a, b, so_far})
                          : make_op(Op::add, {so_far, make_op(Op::mul, {a, b})});
      return Block{make_assign(sum, std::move(next), sum_at)};
    }));
    for (std::size_t k = c_.reduced.size(); k-- > 0;) {
      Block outer{make_loop(vars[k], 0, part.terms.value_or(c_.reduced[k]->to), std::move(step))};
      step = std::move(outer);
    }
    return step;
  }

  ValuePtr factor_b(const Part& part, const Where& where, const Side& lane, const Affine& term,
                    const Affine& l) const {
    if (!part.b) return substitute(c_.b, {where, {}, {}, {}, {}});
    // Tiles lie one after another: which one this is follows from where it begins.
    Affine tile = lane.inside;
    tile.constant /= tile_lanes();
    for (AffineTerm& each : tile.terms) each.coefficient /= tile_lanes();
    return make_load(*part.b, type(), {tile, term, l});
  }

  ValuePtr factor_a(const Part& part, const Where& where, const Side& row, const Affine& term,
                    const Affine& r) const {
    if (!part.a) return substitute(c_.a, {where, {}, {}, {}, {}});
    const Affine inside = plus(row.inside, r);
    return make_load(*part.a, type(),
                     part.a_by_row ? std::vector{inside, term} : std::vector{term, inside});
  }

  Block store(const Part& part, LocalId sum, const Side& row, const Side& lane) {
    if (part.more_terms) {
      return {over_tile(row, lane, [&](const Where& where, auto& sum_at) {
        const StmtPtr to_target =
            make_store(c_.store->buffer, c_.store->subscripts, make_local(sum, type(), sum_at));
        return Block{substitute(to_target, {where, {}, {}, {}, {}})};
      })};
    }
    if (!copy_out_)
      return {over_tile(
          row, lane, [&](const Where& where, auto& sum_at) { return after(where, sum, sum_at); })};
    // What follows is no vector code: it works on a copy, so that the sums stay in registers.
    const LocalId copy = in_.fresh.local();
    return {
        make_declare(copy, make_constant(Scalar::of_float(type(), 0)), {row.count, lane.count}),
        over_tile(row, lane,
                  [&](const Where&, auto& sum_at) {
                    return Block{make_assign(copy, make_local(sum, type(), sum_at), sum_at)};
                  }),
        over_tile(
            row, lane, [&](const Where& where, auto& sum_at) { return after(where, copy, sum_at); },
            LoopMark::serial)};
  }

  /// The statements after the sum, for an element of `block` instead of the accumulator.
  Block after(const Where& where, LocalId block, const std::vector<Affine>& at) {
    Substitution by{where, {}, {}, {}, {}};
    for (const StmtPtr& stmt : c_.after) {
      if (stmt->kind == StmtKind::declare) by.locals[stmt->local] = in_.fresh.local();
    }
    Block result;
    for (const StmtPtr& stmt : c_.after) {
      StmtPtr here = substitute(stmt, by);
      if (here->value) {
        here = with_value(*here, rebuild(here->value, [&](ValuePtr v) {
          const bool sum = v->kind == ValueKind::local && v->local == c_.accumulator;
          return sum ? make_local(block, v->dtype, at) : std::move(v);
        }));
      }
      if (here->kind == StmtKind::assign && here->local == c_.accumulator)
        here = make_assign(block, here->value, at);
      result.push_back(std::move(here));
    }
    return result;
  }

  // Blocks of a single reduced loop, packed.

  /// Blocks of `per_block` tiles, and what is left.
  static std::vector<std::pair<Segment, std::vector<Segment>>> grouped(
      const std::vector<Segment>& tiles, std::int64_t per_block) {
    std::int64_t count = 0;
    for (const Segment& tile : tiles) count += tile.count;
    const std::int64_t extent = tiles.back().offset + tiles.back().count * tiles.back().size;
    if (count <= per_block) return {{{0, 1, extent}, tiles}};
    std::vector<std::pair<Segment, std::vector<Segment>>> blocks;  // of elements; of tiles inside
    for (const Segment& tile : tiles) {
      for (const Segment& group : whole_tiles(tile.count, per_block)) {
        blocks.push_back(
            {{tile.offset + group.offset * tile.size, group.count, group.size * tile.size},
             {{0, group.size, tile.size}}});
      }
    }
    return blocks;
  }

  Block blocks() {
    const std::int64_t terms = c_.reduced[0]->to;
    const std::int64_t parts = (terms + plan_.depth - 1) / plan_.depth;
    const std::int64_t depth = (terms + parts - 1) / parts;
    const std::int64_t tiles = (plan_.lanes + tile_lanes() - 1) / tile_lanes();
    Part last;
    last.a_by_row = stride_of(c_.a, *c_.reduced[0]) == 1;
    if (plan_.pack_b) last.b = in_.add_scratch("packed b", type(), {tiles, depth, tile_lanes()});
    if (plan_.pack_a) {
      // Rows a cache line longer than their terms: rows of 2^n bytes would meet in few cache sets.
      const std::int64_t line = 64 / static_cast<std::int64_t>(size_of(type()));
      last.a = in_.add_scratch(
          "packed a", type(),
          last.a_by_row ? Dims{plan_.rows, depth + line} : Dims{depth, plan_.rows + line});
    }
    Block result;
    last.terms = terms - (parts - 1) * depth;
    last.first_term = Affine{(parts - 1) * depth, {}};
    if (parts > 1) {
      Block begin = start_in_target();
      result.insert(result.end(), begin.begin(), begin.end());
      const VarId p = in_.fresh.var();
      Part middle = last;
      middle.terms = depth;
      middle.first_term = affine_var(p, depth);
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
    return each(balanced_tiles(rows(), 1), [&](const Affine& row, std::int64_t) {
      return each(whole_tiles(lanes(), 4 * width()), [&](const Affine& lane, std::int64_t count) {
        const VarId l = in_.fresh.var();
        const StmtPtr begin = make_store(c_.store->buffer, c_.store->subscripts, c_.start);
        const Where where = at({{}, row, 1}, {}, {{}, lane, count}, affine_var(l));
        return Block{lanes_loop(l, count, substitute(begin, {where, {}, {}, {}, {}}))};
      });
    });
  }

  Block lane_blocks(const Part& part) {
    Block result;
    for (const auto& [block, tiles] : grouped(lane_segments(lanes()), plan_.lanes / tile_lanes())) {
      const std::vector<Segment>& inside = tiles;
      const Block here = each({block}, [&](const Affine& first, std::int64_t) {
        Block body;
        if (part.b) body = pack_b(part, first, inside);
        Block rest = row_blocks(part, first, inside);
        body.insert(body.end(), rest.begin(), rest.end());
        return body;
      });
      result.insert(result.end(), here.begin(), here.end());
    }
    return result;
  }

  Block row_blocks(const Part& part, const Affine& first_lane, const std::vector<Segment>& lanes) {
    Block result;
    for (const auto& [block, tiles] :
         grouped(row_segments(), std::max<std::int64_t>(1, plan_.rows / plan_.tile.rows))) {
      const std::vector<Segment>& inside = tiles;
      const Block here = each({block}, [&](const Affine& first, std::int64_t count) {
        Block body;
        if (part.a) body = pack_a(part, first, count);
        Block rest = all_tiles(lanes, inside, first_lane, first, part);
        body.insert(body.end(), rest.begin(), rest.end());
        return body;
      });
      result.insert(result.end(), here.begin(), here.end());
    }
    return result;
  }

  Block pack_b(const Part& part, const Affine& first, const std::vector<Segment>& tiles) {
    return each(tiles, [&](const Affine& inside, std::int64_t count) {
      const VarId k = in_.fresh.var();
      const VarId l = in_.fresh.var();
      const Side lane{first, inside, count};
      Where where = at({}, {}, lane, affine_var(l));
      where[c_.reduced[0]->var] = plus(affine_var(k), part.first_term);
      const ValuePtr to = factor_b(part, where, lane, affine_var(k), affine_var(l));
      const StmtPtr copy =
          make_store(to->buffer, to->subscripts, substitute(c_.b, {where, {}, {}, {}, {}}));
      if (c_.b_is_contiguous)
        return Block{make_loop(k, 0, *part.terms, {lanes_loop(l, count, copy)})};
      return Block{make_loop(l, 0, count, {make_loop(k, 0, *part.terms, {copy})})};
    });
  }

  Block pack_a(const Part& part, const Affine& first, std::int64_t count) {
    const VarId outer = in_.fresh.var();
    const std::int64_t slow = part.a_by_row ? count : *part.terms;
    const std::int64_t fast = part.a_by_row ? *part.terms : count;
    Block body = each(whole_tiles(fast, 4 * width()), [&](const Affine& base, std::int64_t lanes) {
      const VarId l = in_.fresh.var();
      const Affine inner = plus(base, affine_var(l));
      const Affine& row = part.a_by_row ? affine_var(outer) : inner;
      const Affine& term = part.a_by_row ? inner : affine_var(outer);
      Where where{{c_.reduced[0]->var, plus(term, part.first_term)}};
      where[c_.row->var] = plus(first, row);
      const ValuePtr to = factor_a(part, where, {first, {}, count}, term, row);
      return Block{lanes_loop(
          l, lanes,
          make_store(to->buffer, to->subscripts, substitute(c_.a, {where, {}, {}, {}, {}})))};
    });
    return {make_loop(outer, 0, slow, std::move(body))};
  }

  std::int64_t stride_of(const ValuePtr& load, const Stmt& loop) const {
    return split_lane(flatten(in_.lowered.loop.buffers[load->buffer].type, load->subscripts),
                      loop.var)
        .second;
  }

  Scheduling& in_;
  const Contraction& c_;
  const ContractionPlan plan_;
  const bool copy_out_;
};

}  // namespace

Block build_contraction(Scheduling& in, const Contraction& c, const ContractionPlan& plan) {
  const std::size_t buffers = in.lowered.loop.buffers.size();
  Builder plain(in, c, plan, false);
  Block body = plain.build();
  const LanePlan lanes =
      plan_lanes(Loop{in.lowered.loop.buffers, in.lowered.loop.statics, body}, in.target);
  if (std::ranges::all_of(plain.sums,
                          [&](LocalId sum) { return lanes.in_registers.contains(sum); }))
    return body;
  in.lowered.loop.buffers.resize(buffers);
  in.lowered.tensors.erase(in.lowered.tensors.begin() + static_cast<std::ptrdiff_t>(buffers),
                           in.lowered.tensors.end());
  return Builder(in, c, plan, true).build();
}

}  // namespace heddle::jit
