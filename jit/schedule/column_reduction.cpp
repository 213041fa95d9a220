// See schedule/column_reduction.hpp.
#include "jit/schedule/column_reduction.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "jit/loop/rewrite.hpp"
#include "jit/loop/verify.hpp"
#include "jit/schedule/lanes.hpp"
#include "jit/schedule/row_reduction.hpp"
#include "jit/schedule/scheduling.hpp"
#include "jit/schedule/stages.hpp"
#include "jit/schedule/tiles.hpp"
#include "jit/vector/lanes.hpp"

namespace heddle::jit {
namespace {

/// Column sums that do not fit in registers, or that no vector code computes: the sums are kept in
/// the first-level cache, and some rows are added at a time, so that memory is read along its rows.
class ColumnSums {
 public:
  ColumnSums(Scheduling& in, const StmtPtr& nest, const Reduction& r, Block after)
      : in_(in),
        nest_(nest),
        r_(r),
        after_(std::move(after)),
        type_(r.declare->value->dtype),
        piece_(unrolled_vectors * in.target.lanes(type_)),
        rows_(in.target.profile.rows_together) {}

  [[nodiscard]] Block build() {
    // The trial loop of schedule_column_reduction() checked dependences for at most copies_max
    // lanes.
    const std::int64_t room =
        std::min(copies_max, in_.target.l1_bytes / 2 / static_cast<std::int64_t>(size_of(type_)));
    const std::int64_t width =
        std::max(piece_, std::min({nest_->to, room, parts_width()}) / piece_ * piece_);
    fetches_ = width < nest_->to;
    Block result{make_comment(fmt::format("reduction: {} columns at once, {} rows", width, rows_))};
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
  /// The number of columns computed together: few enough for several parts, but at least 8 cache
  /// lines.
  [[nodiscard]] std::int64_t parts_width() const {
    constexpr std::int64_t parts = 4, lines = 8;
    std::int64_t bytes = nest_->to * static_cast<std::int64_t>(size_of(type_));
    for (const StmtPtr& loop : r_.loops) bytes *= loop->to;
    if (!in_.is_top || bytes < parts * in_.target.profile.part_bytes) return nest_->to;
    const std::int64_t least = lines * cache_line_bytes / static_cast<std::int64_t>(size_of(type_));
    return std::max(least, (nest_->to + parts - 1) / parts);
  }

  Block tile_of(std::int64_t columns) {
    sums_ = in_.fresh.local();
    Block tile{make_declare(sums_, make_constant(*neutral(r_.op, type_)), {columns})};
    over(columns, {make_assign(r_.declare->local, r_.declare->value)}, tile);
    const Stmt& reduced = *r_.loops.back();
    Block sums;
    for (const Segment& segment : whole_tiles(reduced.to, rows_)) {
      const VarId row = in_.fresh.var();
      Block body;
      over(columns, {add_rows(segment, row)}, body,
           [&](VarId piece, std::int64_t size, std::int64_t offset) {
             return next_rows(segment, row, affine_add(affine_var(piece, size), {offset, {}}),
                              size);
           });
      sums.push_back(make_loop(row, 0, segment.count, std::move(body)));
    }
    for (std::size_t k = r_.loops.size() - 1; k-- > 0;) {
      const VarId var = in_.fresh.var();
      Substitution rename;
      rename.vars[r_.loops[k]->var] = affine_var(var);
      for (StmtPtr& stmt : sums) stmt = substitute(stmt, rename);
      sums = {make_loop(var, 0, r_.loops[k]->to, std::move(sums))};
    }
    tile.insert(tile.end(), sums.begin(), sums.end());
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

  /// Prefetches the following rows of large buffers of which the tile reads only some columns, from
  /// `column` of the tile on. Hardware prefetchers follow contiguous reads, but not reads that jump
  /// after less than a row.
  Block next_rows(const Segment& segment, VarId row, const Affine& column, std::int64_t columns) {
    Block fetched;
    if (!fetches_ || segment.count < 2) return fetched;
    const Loop& loop = in_.lowered.loop;
    std::set<BufferId> buffers;
    walk(*r_.term, [&](const Value& v) {
      if (v.kind != ValueKind::load ||
          loop.buffers[v.buffer].type.num_bytes().value_or(0) <= in_.target.l2_bytes ||
          stride(loop, v.buffer, v.subscripts, nest_->var) != 1 ||
          stride(loop, v.buffer, v.subscripts, r_.loops.back()->var) == 0 ||
          !buffers.insert(v.buffer).second)
        return;
      const std::int64_t line = cache_line_bytes / static_cast<std::int64_t>(size_of(v.dtype));
      for (std::int64_t k = 0; k < segment.size; ++k) {
        const VarId at = in_.fresh.var();
        Substitution next;
        next.vars[r_.loops.back()->var] = affine_add(affine_var(row, segment.size),
                                                     Affine{segment.offset + segment.size + k, {}});
        next.vars[nest_->var] = affine_add(affine_add(base_, column), affine_var(at, line));
        const ValuePtr load = substitute(make_load(v.buffer, v.dtype, v.subscripts), next);
        fetched.push_back(make_loop(at, 0, (columns + line - 1) / line,
                                    {make_prefetch(v.buffer, load->subscripts, Prefetch::load)},
                                    LoopMark::unroll));
      }
    });
    return fetched;
  }

  void over(std::int64_t columns, const Block& body, Block& to) {
    over(columns, body, to, [](VarId, std::int64_t, std::int64_t) { return Block(); });
  }

  /// Appends `body` for all columns of the tile, with its sum in the block, and before each piece
  /// the statements that first(variable of pieces, columns, offset) returns.
  template <class First>
  void over(std::int64_t columns, const Block& body, Block& to, const First& first) {
    for (const Segment& segment : whole_tiles(columns, piece_)) {
      const VarId piece = in_.fresh.var();
      const VarId l = in_.fresh.var();
      const Affine column = affine_add(affine_add(affine_var(piece, segment.size), affine_var(l)),
                                       Affine{segment.offset, {}});
      Block here = copy_at(in_, body, nest_->var, affine_add(base_, column));
      for (StmtPtr& stmt : here) {
        if (!stmt->value) continue;  // a comment
        stmt = with_value(*stmt, rebuild(stmt->value, [&](ValuePtr v) {
          const bool sum = v->kind == ValueKind::local && v->local == r_.declare->local;
          return sum ? make_local(sums_, type_, {column}) : std::move(v);
        }));
        if (stmt->kind == StmtKind::assign && stmt->local == r_.declare->local)
          stmt = make_assign(sums_, stmt->value, {column});
      }
      Block step = first(piece, segment.size, segment.offset);
      append(step, in_stages(in_, make_loop(l, 0, segment.size, std::move(here), LoopMark::lanes)));
      to.push_back(make_loop(piece, 0, segment.count, std::move(step)));
    }
  }

  Scheduling& in_;
  const StmtPtr& nest_;
  const Reduction& r_;
  const Block after_;
  const DType type_;
  const std::int64_t piece_;
  const std::int64_t rows_;
  LocalId sums_ = 0;
  bool fetches_ = false;
  Affine base_;
};

Block after_sums(const StmtPtr& nest) { return {nest->body.begin() + 2, nest->body.end()}; }

/// True if the position is the same for all columns, whatever `after` stores.
bool is_shared(const Stmt& position, VarId column, LocalId sum, const Block& after) {
  bool shared = is_uniform(*position.value, column, {sum});
  walk(*position.value, [&](const Value& v) {
    walk(after, [&](const Stmt& stmt) {
      const bool stores = stmt.kind == StmtKind::store && v.kind == ValueKind::load;
      shared = shared && !(stores && stmt.buffer == v.buffer);
    });
  });
  return shared;
}

/// for j { let x = start; for i.. { x = op(x, term) }; after }
std::optional<Reduction> match_columns(const StmtPtr& nest) {
  if (nest->kind != StmtKind::loop || nest->mark != LoopMark::serial || nest->from != 0 ||
      nest->body.size() < 3 || !is_straight(after_sums(nest)))
    return std::nullopt;
  std::optional<Reduction> found = match_reduction(nest->body[0], nest->body[1], true);
  if (!found) return std::nullopt;
  const Block after = after_sums(nest);
  for (const StmtPtr& each : found->loops) {
    if (each->kind == StmtKind::at && !is_shared(*each, nest->var, found->declare->local, after))
      return std::nullopt;
  }
  return found;
}

/// True if the loads of the term are contiguous along the columns, and no other load is contiguous
/// along the reduced loop.
bool reads_along_rows(const Loop& loop, const Reduction& r, VarId column) {
  bool along = false;
  bool across = false;
  walk(*r.term, [&](const Value& v) {
    if (v.kind != ValueKind::load) return;
    const std::int64_t step = stride(loop, v.buffer, v.subscripts, column);
    if (step == 0) return;
    along = along || step == 1;
    for (const StmtPtr& reduced : r.loops)
      across = across || stride(loop, v.buffer, v.subscripts, reduced->var) == 1;
  });
  return along && !across;
}

/// True if the loads of the term are contiguous along the innermost reduced loop, which is short,
/// and a few elements apart along the columns, as of windows with steps: sums of all columns side
/// by side then follow memory, no sum waits for its last term, and compilers make vectors of the
/// columns.
bool reads_short_rows(const Loop& loop, const Reduction& r, VarId column) {
  constexpr std::int64_t short_max = 8;
  const Stmt& last = *r.loops.back();
  bool follows = last.to <= short_max && r.loops.size() > 1;
  bool moves = false;
  walk(*r.term, [&](const Value& v) {
    if (v.kind != ValueKind::load) return;
    const std::int64_t step = stride(loop, v.buffer, v.subscripts, column);
    const std::int64_t inner = stride(loop, v.buffer, v.subscripts, last.var);
    moves = moves || step != 0;
    follows =
        follows && ((1 < step && step <= short_max && inner == 1) || (step == 0 && inner == 0));
  });
  return follows && moves;
}

}  // namespace

bool is_column_reduction(Scheduling& in, const StmtPtr& nest) {
  const std::optional<Reduction> r = match_columns(nest);
  return r && reads_along_rows(in.lowered.loop, *r, nest->var) &&
         schedule_column_reduction(in, nest).has_value();
}

std::optional<Block> schedule_column_reduction(Scheduling& in, const StmtPtr& nest) {
  const std::optional<Reduction> r = match_columns(nest);
  if (!r) return std::nullopt;
  const Block after = after_sums(nest);
  const DType type = r->declare->value->dtype;
  const std::int64_t width = in.target.lanes(type);
  if (width < 2) return std::nullopt;
  if (nest->to < width) {
    return r->has_positions ? std::nullopt : schedule_narrow_columns(in, nest, *r, after);
  }
  // Tests whether one iteration, as straight-line code, may run in lanes.
  const VarId trial = in.fresh.var();
  Block straight{r->declare,
                 make_assign(r->declare->local,
                             make_op(r->op, {make_local(r->declare->local, type), r->term}))};
  straight.insert(straight.end(), after.begin(), after.end());
  const StmtPtr lanes =
      make_loop(trial, 0, std::min(nest->to, copies_max),
                copy_at(in, straight, nest->var, affine_var(trial)), LoopMark::lanes);
  if (!runs_as_vectors(in, lanes)) {
    // Values that cannot be computed in vectors, such as values of several widths, are still read
    // along their rows.
    const bool in_rows = !r->has_positions && broken_mark({lanes}).empty() &&
                         (reads_along_rows(in.lowered.loop, *r, nest->var) ||
                          reads_short_rows(in.lowered.loop, *r, nest->var));
    return in_rows ? std::optional(ColumnSums(in, nest, *r, after).build()) : std::nullopt;
  }
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
        if (!stmt->value) continue;  // a comment
        stmt = with_value(*stmt, rebuild(stmt->value, [&](ValuePtr v) {
          const bool sum = v->kind == ValueKind::local && v->local == r->declare->local;
          return sum ? make_local(sums, type, {affine_var(l)}) : std::move(v);
        }));
        if (stmt->kind == StmtKind::assign && stmt->local == r->declare->local)
          stmt = make_assign(sums, stmt->value, {affine_var(l)});
      }
      return in_stages(in, make_loop(l, 0, segment.size, std::move(here), LoopMark::lanes));
    };
    Block step = over({r->loops.back()->body[0]});
    for (std::size_t k = r->loops.size(); k-- > 0;) {
      const VarId var = in.fresh.var();
      Substitution rename;
      rename.vars[r->loops[k]->var] = affine_var(var);
      const Stmt& each = *r->loops[k];
      for (StmtPtr& stmt : step) stmt = substitute(stmt, rename);
      step = {each.kind == StmtKind::at
                  ? make_at(var, each.from, each.to, each.value, each.nearest, std::move(step))
                  : make_loop(var, 0, each.to, std::move(step))};
    }
    Block tile{make_declare(sums, make_constant(*neutral(r->op, type)), {segment.size})};
    append(tile, over({make_assign(r->declare->local, r->declare->value)}));
    append(tile, step);
    append(tile, over(after));
    if (segment.count > 1) {
      result.push_back(make_loop(outer, 0, segment.count, std::move(tile)));
    } else {
      result.insert(result.end(), tile.begin(), tile.end());
    }
  }
  return result;
}

}  // namespace heddle::jit
