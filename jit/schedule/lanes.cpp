// Elementwise code and reductions in vectors. Pure; any thread.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "jit/loop/rewrite.hpp"
#include "jit/loop/verify.hpp"
#include "jit/schedule/schedule.hpp"
#include "jit/vector/lanes.hpp"

namespace heddle::jit {
namespace {

/// Vectors of an elementwise loop in one iteration: enough to keep the loads going.
constexpr std::int64_t unrolled_vectors = 4;
/// Operations, loads and stores of an iteration, beyond which it has fewer vectors: that keeps the
/// loads going too, and compilers take more than twice as long over twice the code.
constexpr std::int64_t unrolled_steps_max = 256;
/// Sums side by side: an addition takes four cycles, two begin in each.
constexpr std::int64_t sums_max = 8;

/// The loop may run as lanes, and all of it would be vector code.
bool runs_as_vectors(const Scheduling& in, const StmtPtr& lanes) {
  const Block alone{lanes};
  if (!broken_mark(alone).empty()) return false;
  return plan_lanes(in.lowered.loop.buffers, alone, in.target).vectors.contains(lanes->var);
}

std::int64_t vector_width(const Scheduling& in, const Block& body) {
  const std::optional<DType> type = lane_type(body);
  return type ? in.target.lanes(*type) : 0;
}

/// body at `at`, its own locals renamed.
Block copy_at(Scheduling& in, const Block& body, VarId var, const Affine& at) {
  Substitution by;
  by.vars[var] = at;
  return copied(in, body, std::move(by));
}

/// [declare x = start, reduced loops around x = op(x, term)] at the head of a block.
struct Reduction {
  StmtPtr declare;
  std::vector<StmtPtr> loops;
  Op op = Op::add;
  ValuePtr term;
  bool term_first = false;
};

std::optional<Reduction> match_reduction(const StmtPtr& declare, const StmtPtr& nest) {
  if (declare->kind != StmtKind::declare || !declare->dims.empty()) return std::nullopt;
  Reduction found;
  found.declare = declare;
  StmtPtr inner = nest;
  while (inner->kind == StmtKind::loop && inner->mark == LoopMark::serial && inner->from == 0 &&
         inner->to > 0 && inner->body.size() == 1) {
    found.loops.push_back(inner);
    inner = StmtPtr(inner->body[0]);
  }
  if (found.loops.empty() || inner->kind != StmtKind::assign || inner->local != declare->local)
    return std::nullopt;
  const Value& next = *inner->value;
  if (next.kind != ValueKind::op || next.args.size() != 2) return std::nullopt;
  if (next.op != Op::add && next.op != Op::mul && next.op != Op::max && next.op != Op::min)
    return std::nullopt;
  const auto is_sum = [&](const ValuePtr& v) {
    return v->kind == ValueKind::local && v->local == declare->local;
  };
  if (is_sum(next.args[0]) == is_sum(next.args[1])) return std::nullopt;
  found.op = next.op;
  found.term_first = is_sum(next.args[1]);
  found.term = next.args[found.term_first ? 0 : 1];
  bool again = false;
  walk(*found.term, [&](const Value& v) {
    again = again || (v.kind == ValueKind::local && v.local == declare->local);
  });
  return again ? std::nullopt : std::optional(found);
}

class RowReduction {
 public:
  RowReduction(Scheduling& in, const Reduction& r)
      : in_(in), r_(r), type_(r.declare->value->dtype), width_(in.target.lanes(type_)) {}

  std::optional<Block> build() {
    const Stmt& row = *r_.loops.back();
    const std::int64_t extent = row.to;
    if (width_ < 2 || extent < 2 * width_) return std::nullopt;
    sums_ = std::min(sums_max, extent / width_);
    while ((sums_ & (sums_ - 1)) != 0) --sums_;
    if (!is_vector()) return std::nullopt;
    const LocalId sums = in_.fresh.local();
    Block body{make_comment(fmt::format("reduction: {} x {} at once", sums_, width_)), r_.declare,
               make_declare(sums, make_constant(*neutral(r_.op, type_)), {sums_, width_})};
    body.push_back(around(all_terms(sums, extent)));
    fold_vectors(sums, body);
    fold_lanes(sums, body);
    return body;
  }

 private:
  ValuePtr join(const ValuePtr& sum, const ValuePtr& term) const {
    return make_op(r_.op, r_.term_first ? std::vector{term, sum} : std::vector{sum, term});
  }

  ValuePtr term_at(const Affine& at) const {
    Substitution by;
    by.vars[r_.loops.back()->var] = at;
    return substitute(r_.term, by);
  }

  bool is_vector() {
    const VarId lane = in_.fresh.var();
    const LocalId sum = in_.fresh.local();
    const StmtPtr trial =
        make_loop(lane, 0, width_,
                  {make_declare(sum, term_at(affine_var(lane))),
                   make_assign(sum, join(make_local(sum, type_), make_local(sum, type_)))},
                  LoopMark::lanes);
    return runs_as_vectors(in_, trial);
  }

  /// The reduced loops outside the innermost one.
  StmtPtr around(Block body) {
    for (std::size_t k = r_.loops.size() - 1; k-- > 0;) {
      Block outer{make_loop(r_.loops[k]->var, 0, r_.loops[k]->to, std::move(body))};
      body = std::move(outer);
    }
    return body.size() == 1 ? body[0] : make_loop(in_.fresh.var(), 0, 1, std::move(body));
  }

  Block all_terms(LocalId sums, std::int64_t extent) {
    const std::int64_t step = sums_ * width_;
    const VarId outer = in_.fresh.var();
    const VarId v = in_.fresh.var();
    const VarId l = in_.fresh.var();
    const Affine at =
        affine_add(affine_var(outer, step), affine_add(affine_var(v, width_), affine_var(l)));
    const auto into = [&](const Affine& vector, VarId lane, std::int64_t count,
                          const Affine& from) {
      const std::vector<Affine> place{vector, affine_var(lane)};
      return make_loop(
          lane, 0, count,
          {make_assign(sums, join(make_local(sums, type_, place), term_at(from)), place)},
          LoopMark::lanes);
    };
    Block body;
    body.push_back(make_loop(
        outer, 0, extent / step,
        {make_loop(v, 0, sums_, {into(affine_var(v), l, width_, at)}, LoopMark::unroll)}));
    // What is left: whole vectors into the first sums, then single terms.
    std::int64_t done = extent / step * step;
    if (const std::int64_t vectors = (extent - done) / width_; vectors > 0) {
      const VarId v2 = in_.fresh.var();
      const VarId l2 = in_.fresh.var();
      const Affine from =
          affine_add(affine_var(v2, width_), affine_add(affine_var(l2), Affine{done, {}}));
      body.push_back(
          make_loop(v2, 0, vectors, {into(affine_var(v2), l2, width_, from)}, LoopMark::unroll));
      done += vectors * width_;
    }
    if (done < extent) {
      const VarId rest = in_.fresh.var();
      const Affine from = affine_add(affine_var(rest), Affine{done, {}});
      const ValuePtr sum = make_local(r_.declare->local, type_);
      body.push_back(make_loop(rest, 0, extent - done,
                               {make_assign(r_.declare->local, join(sum, term_at(from)))}));
    }
    return body;
  }

  /// Pairwise, to the first vector.
  void fold_vectors(LocalId sums, Block& body) {
    for (std::int64_t half = sums_ / 2; half > 0; half /= 2) {
      const VarId v = in_.fresh.var();
      const VarId l = in_.fresh.var();
      const std::vector<Affine> low{affine_var(v), affine_var(l)};
      const std::vector<Affine> high{affine_add(affine_var(v), Affine{half, {}}), affine_var(l)};
      const StmtPtr lanes = make_loop(
          l, 0, width_,
          {make_assign(sums, join(make_local(sums, type_, low), make_local(sums, type_, high)),
                       low)},
          LoopMark::lanes);
      body.push_back(make_loop(v, 0, half, {lanes}, LoopMark::unroll));
    }
  }

  /// Pairwise, and with what the reduction began with.
  void fold_lanes(LocalId sums, Block& body) {
    const LocalId row = in_.fresh.local();
    const VarId l = in_.fresh.var();
    body.push_back(make_declare(row, make_constant(*neutral(r_.op, type_)), {width_}));
    body.push_back(make_loop(
        l, 0, width_,
        {make_assign(row, make_local(sums, type_, {Affine{}, affine_var(l)}), {affine_var(l)})},
        LoopMark::lanes));
    for (std::int64_t half = width_ / 2; half > 0; half /= 2) {
      const VarId q = in_.fresh.var();
      const ValuePtr low = make_local(row, type_, {affine_var(q)});
      const ValuePtr high = make_local(row, type_, {affine_add(affine_var(q), Affine{half, {}})});
      body.push_back(make_loop(q, 0, half, {make_assign(row, join(low, high), {affine_var(q)})},
                               LoopMark::unroll));
    }
    const ValuePtr all = make_local(row, type_, {Affine{}});
    body.push_back(make_assign(r_.declare->local, join(make_local(r_.declare->local, type_), all)));
  }

  Scheduling& in_;
  const Reduction& r_;
  const DType type_;
  const std::int64_t width_;
  std::int64_t sums_ = 1;
};

}  // namespace

std::optional<Block> schedule_row_reduction(Scheduling& in, const StmtPtr& declare,
                                            const StmtPtr& nest) {
  const std::optional<Reduction> found = match_reduction(declare, nest);
  if (!found || !neutral(found->op, declare->value->dtype)) return std::nullopt;
  return RowReduction(in, *found).build();
}

bool is_elementwise(const Scheduling& in, const StmtPtr& nest) {
  if (nest->kind != StmtKind::loop) return false;
  if (!is_straight(nest->body)) {
    return std::ranges::all_of(nest->body,
                               [&in](const StmtPtr& inner) { return is_elementwise(in, inner); });
  }
  const std::int64_t width = vector_width(in, nest->body);
  return width > 1 && runs_as_vectors(in, make_loop(nest->var, nest->from, nest->from + width,
                                                    nest->body, LoopMark::lanes));
}

namespace {

/// Of an iteration of an elementwise loop.
std::int64_t vectors_at_once(const Block& body) {
  std::int64_t steps = 0;
  walk(body, [&](const Stmt& stmt) { steps += stmt.kind == StmtKind::store ? 1 : 0; });
  walk_values(body, [&](const Value& v) {
    const bool counts = v.kind == ValueKind::op || v.kind == ValueKind::load;
    steps += counts ? 1 : 0;
  });
  return std::clamp<std::int64_t>(unrolled_steps_max / std::max<std::int64_t>(steps, 1), 1,
                                  unrolled_vectors);
}

}  // namespace

std::optional<Block> schedule_elementwise(Scheduling& in, const StmtPtr& nest) {
  if (nest->kind != StmtKind::loop || nest->mark != LoopMark::serial || !is_straight(nest->body))
    return std::nullopt;
  const std::int64_t width = vector_width(in, nest->body);
  const std::int64_t extent = nest->to - nest->from;
  if (width < 2 || extent < width) return std::nullopt;
  const auto lanes = [&](std::int64_t count, const Affine& from) {
    const VarId l = in.fresh.var();
    return make_loop(l, 0, count,
                     copy_at(in, nest->body, nest->var, affine_add(from, affine_var(l))),
                     LoopMark::lanes);
  };
  // An element may depend on one that lies a vector or more before it.
  std::int64_t tile = std::min(extent, vectors_at_once(nest->body) * width);
  if (!runs_as_vectors(in, lanes(tile, Affine{nest->from, {}}))) tile = width;
  if (!runs_as_vectors(in, lanes(tile, Affine{nest->from, {}}))) return std::nullopt;
  Block result;
  for (const Segment& segment : whole_tiles(extent, tile)) {
    const std::int64_t from = nest->from + segment.offset;
    if (segment.count == 1) {
      result.push_back(lanes(segment.size, Affine{from, {}}));
    } else {
      const VarId outer = in.fresh.var();
      const Affine base = affine_add(affine_var(outer, segment.size), Affine{from, {}});
      result.push_back(make_loop(outer, 0, segment.count, {lanes(segment.size, base)}));
    }
  }
  return result;
}

namespace {

/// Sums along columns, more of them than registers hold: sums in the first-level cache, four rows
/// at a time, so that memory is read along its rows.
class ColumnSums {
 public:
  ColumnSums(Scheduling& in, const StmtPtr& nest, const Reduction& r, Block after)
      : in_(in),
        nest_(nest),
        r_(r),
        after_(std::move(after)),
        type_(r.declare->value->dtype),
        piece_(unrolled_vectors * in.target.lanes(type_)) {}

  [[nodiscard]] Block build() {
    // What lies further apart than this was not looked at.
    const std::int64_t room =
        std::min(copies_max, in_.target.l1_bytes / 2 / static_cast<std::int64_t>(size_of(type_)));
    const std::int64_t width = std::max(piece_, std::min(nest_->to, room) / piece_ * piece_);
    Block result{make_comment(fmt::format("reduction: {} columns at once, {} rows", width, rows))};
    for (const Segment& segment : whole_tiles(nest_->to, width)) {
      const VarId outer = in_.fresh.var();
      const bool single = segment.count == 1;
      base_ = single ? Affine{segment.offset, {}}
                     : affine_add(affine_var(outer, segment.size), Affine{segment.offset, {}});
      Block tile = tile_of(segment.size);
      if (single) {
        result.insert(result.end(), tile.begin(), tile.end());
      } else {
        result.push_back(make_loop(outer, 0, segment.count, std::move(tile)));
      }
    }
    return result;
  }

 private:
  static constexpr std::int64_t rows = 4;

  Block tile_of(std::int64_t columns) {
    sums_ = in_.fresh.local();
    Block tile{make_declare(sums_, make_constant(*neutral(r_.op, type_)), {columns})};
    over(columns, {make_assign(r_.declare->local, r_.declare->value)}, tile);
    const Stmt& reduced = *r_.loops.back();
    for (const Segment& segment : whole_tiles(reduced.to, rows)) {
      const VarId row = in_.fresh.var();
      Block body;
      over(columns, {add_rows(segment, row)}, body);
      tile.push_back(make_loop(row, 0, segment.count, std::move(body)));
    }
    over(columns, after_, tile);
    return tile;
  }

  /// x = op(op(x, term of the first row), term of the second), ...
  StmtPtr add_rows(const Segment& segment, VarId row) const {
    ValuePtr sum = make_local(r_.declare->local, type_);
    for (std::int64_t k = 0; k < segment.size; ++k) {
      Substitution by;
      by.vars[r_.loops.back()->var] =
          affine_add(affine_var(row, segment.size), Affine{segment.offset + k, {}});
      const ValuePtr term = substitute(r_.term, by);
      sum = make_op(r_.op, r_.term_first ? std::vector{term, sum} : std::vector{sum, term});
    }
    return make_assign(r_.declare->local, sum);
  }

  /// `body` for all columns of the tile, its sum held in the block.
  void over(std::int64_t columns, const Block& body, Block& to) {
    for (const Segment& segment : whole_tiles(columns, piece_)) {
      const VarId piece = in_.fresh.var();
      const VarId l = in_.fresh.var();
      const Affine column = affine_add(affine_add(affine_var(piece, segment.size), affine_var(l)),
                                       Affine{segment.offset, {}});
      Block here = copy_at(in_, body, nest_->var, affine_add(base_, column));
      for (StmtPtr& stmt : here) {
        stmt = with_value(*stmt, rebuild(stmt->value, [&](ValuePtr v) {
          const bool sum = v->kind == ValueKind::local && v->local == r_.declare->local;
          return sum ? make_local(sums_, type_, {column}) : std::move(v);
        }));
        if (stmt->kind == StmtKind::assign && stmt->local == r_.declare->local)
          stmt = make_assign(sums_, stmt->value, {column});
      }
      to.push_back(make_loop(piece, 0, segment.count,
                             {make_loop(l, 0, segment.size, std::move(here), LoopMark::lanes)}));
    }
  }

  Scheduling& in_;
  const StmtPtr& nest_;
  const Reduction& r_;
  const Block after_;
  const DType type_;
  const std::int64_t piece_;
  LocalId sums_ = 0;
  Affine base_;
};

}  // namespace

std::optional<Block> schedule_column_reduction(Scheduling& in, const StmtPtr& nest) {
  // for j { let x = start; for i.. { x = op(x, term) }; after }, contiguous along j: j in lanes.
  if (nest->kind != StmtKind::loop || nest->mark != LoopMark::serial || nest->from != 0 ||
      nest->body.size() < 3)
    return std::nullopt;
  const std::optional<Reduction> r = match_reduction(nest->body[0], nest->body[1]);
  const Block after(nest->body.begin() + 2, nest->body.end());
  if (!r || !is_straight(after)) return std::nullopt;
  const DType type = r->declare->value->dtype;
  const std::int64_t width = in.target.lanes(type);
  if (width < 2 || nest->to < width) return std::nullopt;
  // All of it as one iteration's straight-line code: may that run in lanes?
  const VarId trial = in.fresh.var();
  Block straight{r->declare,
                 make_assign(r->declare->local,
                             make_op(r->op, {make_local(r->declare->local, type), r->term}))};
  straight.insert(straight.end(), after.begin(), after.end());
  if (!runs_as_vectors(
          in, make_loop(trial, 0, std::min(nest->to, copies_max),
                        copy_at(in, straight, nest->var, affine_var(trial)), LoopMark::lanes)))
    return std::nullopt;
  if (r->loops.size() == 1 && nest->to > sums_max * width)
    return ColumnSums(in, nest, *r, after).build();
  Block result{make_comment(fmt::format("reduction: {} columns at once", sums_max * width))};
  for (const Segment& segment : whole_tiles(nest->to, sums_max * width)) {
    const VarId outer = in.fresh.var();
    const Affine base = segment.count == 1 ? Affine{segment.offset, {}}
                                           : affine_add(affine_var(outer, segment.size),
                                                        Affine{segment.offset, {}});
    const LocalId sums = in.fresh.local();
    const auto over = [&](const Block& body) {
      const VarId l = in.fresh.var();
      Block here = copy_at(in, body, nest->var, affine_add(base, affine_var(l)));
      for (StmtPtr& stmt : here) {
        stmt = with_value(*stmt, rebuild(stmt->value, [&](ValuePtr v) {
          const bool sum = v->kind == ValueKind::local && v->local == r->declare->local;
          return sum ? make_local(sums, type, {affine_var(l)}) : std::move(v);
        }));
        if (stmt->kind == StmtKind::assign && stmt->local == r->declare->local)
          stmt = make_assign(sums, stmt->value, {affine_var(l)});
      }
      return make_loop(l, 0, segment.size, std::move(here), LoopMark::lanes);
    };
    StmtPtr step = over({r->loops.back()->body[0]});
    for (std::size_t k = r->loops.size(); k-- > 0;) {
      const VarId var = in.fresh.var();
      Substitution rename;
      rename.vars[r->loops[k]->var] = affine_var(var);
      step = make_loop(var, 0, r->loops[k]->to, {substitute(step, rename)});
    }
    Block tile{make_declare(sums, make_constant(*neutral(r->op, type)), {segment.size}),
               over({make_assign(r->declare->local, r->declare->value)}), step, over(after)};
    if (segment.count > 1) {
      result.push_back(make_loop(outer, 0, segment.count, std::move(tile)));
    } else {
      result.insert(result.end(), tile.begin(), tile.end());
    }
  }
  return result;
}

}  // namespace heddle::jit
