// See gpu_rows.hpp.
#include "jit/schedule/gpu_rows.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <utility>

#include "jit/loop/rewrite.hpp"
#include "jit/loop/verify.hpp"
#include "jit/schedule/gpu_sums.hpp"
#include "jit/schedule/gpu_wide.hpp"
#include "jit/schedule/tiles.hpp"

namespace heddle::jit {
namespace {

/// A step of the work on a row.
struct RowStep {
  enum class Kind { scalar, reduction, loop };
  Kind kind = Kind::scalar;
  Block statements;  ///< for scalars: declarations, assignments and stores; else a single loop
  std::optional<Reduction> reduction{};
};

std::optional<std::vector<RowStep>> steps_of(const Block& body) {
  std::vector<RowStep> steps;
  for (std::size_t k = 0; k < body.size(); ++k) {
    const StmtPtr& stmt = body[k];
    if (stmt->kind == StmtKind::comment) continue;
    if (stmt->kind == StmtKind::declare && k + 1 < body.size()) {
      std::optional<Reduction> found = match_reduction(stmt, body[k + 1]);
      if (found && neutral(found->op, stmt->value->dtype)) {
        steps.push_back({RowStep::Kind::reduction, {}, std::move(found)});
        ++k;
        continue;
      }
    }
    if (stmt->kind == StmtKind::loop) {
      if (stmt->mark != LoopMark::serial || stmt->from >= stmt->to ||
          !shared_by_iterations(*stmt, {}).empty())
        return std::nullopt;
      steps.push_back({RowStep::Kind::loop, {stmt}});
      continue;
    }
    if (!is_straight({stmt})) return std::nullopt;
    if (steps.empty() || steps.back().kind != RowStep::Kind::scalar) steps.push_back({});
    steps.back().statements.push_back(stmt);
  }
  return steps;
}

const StmtPtr& shared_loop(const RowStep& step) {
  return step.kind == RowStep::Kind::loop
             ? step.statements[0]
             : step.reduction->loops[longest_loop(step.reduction->loops)];
}

/// Rows with loops along them, as groups.
class Rows {
 public:
  Rows(Scheduling& in, const std::vector<StmtPtr>& rows, const std::vector<RowStep>& steps)
      : in_(in), rows_(rows), steps_(steps) {
    std::int64_t longest_row = 1;
    for (const RowStep& step : steps) {
      if (step.kind != RowStep::Kind::scalar)
        longest_row = std::max(longest_row, iterations_of(*shared_loop(step)));
    }
    threads_ = warp_threads;
    while (threads_ < group_threads && threads_ * 4 <= longest_row) threads_ *= 2;
  }

  Block build() {
    const std::int64_t at_once = rows_.empty() ? 1 : group_threads / threads_;
    const std::int64_t extent = rows_.empty() ? 1 : iterations_of(*rows_.back());
    Block result{comment(at_once)};
    for (const Segment& segment : whole_tiles(extent, at_once)) result.push_back(nest(segment));
    return result;
  }

 private:
  StmtPtr comment(std::int64_t at_once) const {
    const std::string text =
        fmt::format("rows: {} threads each, {} rows a group", threads_,
                    rows_.empty() ? 1 : std::min(at_once, iterations_of(*rows_.back())));
    const bool sums = std::ranges::any_of(steps_, [](const RowStep& step) {
      return step.reduction && is_floating(step.reduction->declare->value->dtype);
    });
    return make_comment(text, sums ? fmt::format("{} sums", threads_) : std::string());
  }

  StmtPtr nest(const Segment& segment) {
    at_once_ = segment.size;
    by_ = {};
    scalars_.clear();
    for (const StmtPtr& loop : rows_) by_.loops[loop->var] = in_.fresh.var();
    const VarId group = in_.fresh.var();
    if (!rows_.empty()) {
      by_.loops.erase(rows_.back()->var);
      first_row_ = affine_add(affine_var(group, segment.size),
                              Affine{rows_.back()->from + segment.offset, {}});
    }
    Block body;
    for (const RowStep& step : steps_) {
      if (step.kind == RowStep::Kind::scalar) {
        append(body, scalars(step.statements));
      } else if (step.kind == RowStep::Kind::loop) {
        append(body, along(*step.statements[0]));
      } else {
        append(body, reduction(*step.reduction));
      }
    }
    StmtPtr made = make_loop(group, 0, segment.count, std::move(body), LoopMark::parallel);
    for (std::size_t k = rows_.size(); k-- > 1;) {
      const Stmt& loop = *rows_[k - 1];
      made = make_loop(by_.loops.at(loop.var), loop.from, loop.to, {made}, LoopMark::parallel);
    }
    return made;
  }

  /// A thread for each of `count` places of each row: body(row of the group, place).
  using Body = std::function<Block(const Affine& row, const Affine& place)>;
  StmtPtr each(std::int64_t count, const Body& body) {
    const VarId row = in_.fresh.var(), place = in_.fresh.var();
    const bool one = at_once_ == 1;
    StmtPtr loop =
        make_loop(place, 0, count, body(one ? Affine{} : affine_var(row), affine_var(place)),
                  LoopMark::block);
    return one ? loop : make_loop(row, 0, at_once_, {loop}, LoopMark::block);
  }

  /// The body for a row, with scalars at the group's locations, and the variables of `more`
  /// substituted.
  Block in_row(const Block& body, const Affine& row, const std::map<VarId, Affine>& more = {}) {
    Substitution by = by_;
    by.vars = more;
    if (!rows_.empty()) by.vars[rows_.back()->var] = affine_add(first_row_, row);
    Block placed;
    for (const StmtPtr& stmt : body) placed.push_back(with_scalars(*stmt, row));
    return with_own_names(in_.fresh, placed, std::move(by));
  }
  StmtPtr with_scalars(const Stmt& stmt, const Affine& row) const {
    Stmt made = stmt;
    if (stmt.kind == StmtKind::assign && stmt.subscripts.empty()) {
      if (const auto at = scalars_.find(stmt.local); at != scalars_.end()) {
        made.local = at->second;
        made.subscripts = {row};
      }
    }
    if (stmt.value) made.value = with_scalars(stmt.value, row);
    made.body.clear();
    for (const StmtPtr& inner : stmt.body) made.body.push_back(with_scalars(*inner, row));
    return std::make_shared<const Stmt>(std::move(made));
  }
  ValuePtr with_scalars(const ValuePtr& value, const Affine& row) const {
    return rebuild(value, [&](ValuePtr v) {
      const auto at = v->kind == ValueKind::local && v->subscripts.empty() ? scalars_.find(v->local)
                                                                           : scalars_.end();
      return at == scalars_.end() ? v : make_local(at->second, v->dtype, {row});
    });
  }

  /// Declares a scalar per row, which starts as `start` where the declared value is a constant.
  LocalId scalar(const Stmt& declare, Block& body) {
    const bool constant = declare.value->kind == ValueKind::constant;
    const LocalId made = in_.fresh.local();
    const ValuePtr start =
        constant ? declare.value : make_constant(Scalar::of_float(declare.value->dtype, 0));
    body.push_back(make_declare(made, start, {at_once_}));
    scalars_[declare.local] = made;
    return made;
  }

  Block scalars(const Block& statements) {
    Block body;
    Block run;
    for (const StmtPtr& stmt : statements) {
      if (stmt->kind != StmtKind::declare) {
        run.push_back(stmt);
        continue;
      }
      scalar(*stmt, body);
      if (stmt->value->kind != ValueKind::constant)
        run.push_back(make_assign(stmt->local, stmt->value));
    }
    if (!run.empty())
      body.push_back(each(1, [&](const Affine& row, const Affine&) { return in_row(run, row); }));
    return body;
  }

  /// The iterations of the loop, shared out among threads.
  Block along(const Stmt& loop) {
    const std::int64_t wide = neighbours_at_once(in_.lowered.loop, loop.body, loop.var);
    const VarId lane = in_.fresh.var();
    const Block at_once{
        make_loop(lane, 0, wide, at_lane(loop.body, loop.var, lane), LoopMark::lanes)};
    Block body;
    for (const Share& share :
         shares(loop, std::min(threads_, iterations_of(loop)), wide, at_once)) {
      body.push_back(each(share.threads, [&](const Affine& row, const Affine& place) {
        return shared_out(loop.var, share, row, place, share.each > 1 ? at_once : loop.body);
      }));
    }
    return body;
  }

  /// `turns` times, each of some threads takes `each` neighbours of a loop's iterations, from
  /// `first` on.
  struct Share {
    std::int64_t threads = 0, turns = 0, each = 1, first = 0;
  };
  /// The iterations of the loop for `threads` threads. `at_once` has the work on `wide` neighbours,
  /// which threads take where there are enough for all, and the memory allows it.
  std::vector<Share> shares(const Stmt& loop, std::int64_t threads, std::int64_t wide,
                            const Block& at_once) {
    std::int64_t size = 1;
    if (wide > 1 && iterations_of(loop) / wide >= threads) {
      const Affine row = at_once_ == 1 ? Affine{} : affine_var(in_.fresh.var());
      const Affine first{loop.from, {}};
      const Block placed =
          in_row(at_once, row, {{loop.var, affine_add(first, affine_var(in_.fresh.var(), wide))}});
      bool fits = true;
      const auto look = [&](const StmtPtr& stmt, const auto& again) -> void {
        if (stmt->mark == LoopMark::lanes) fits = fits && accesses_are_wide(in_.lowered.loop, stmt);
        for (const StmtPtr& inner : stmt->body) again(inner, again);
      };
      for (const StmtPtr& stmt : placed) look(stmt, look);
      if (fits) size = wide;
    }
    const std::int64_t pieces = iterations_of(loop) / size, turns = pieces / threads;
    std::vector<Share> made{{threads, turns, size, loop.from}};
    const auto add = [&](std::int64_t count, std::int64_t each, std::int64_t first) {
      if (count > 0) made.push_back({count, 1, each, loop.from + first});
    };
    add(pieces % threads, size, turns * threads * size);
    add(iterations_of(loop) % size, 1, pieces * size);
    return made;
  }

  /// A thread's part of a share, whose `statements` are the work on `each` iterations.
  Block shared_out(VarId var, const Share& share, const Affine& row, const Affine& place,
                   const Block& statements) {
    const Affine first = affine_add(affine_scale(place, share.each), Affine{share.first, {}});
    if (share.turns == 1) return in_row(statements, row, {{var, first}});
    const VarId turn = in_.fresh.var();
    const Affine at = affine_add(first, affine_var(turn, share.threads * share.each));
    return {make_loop(turn, 0, share.turns, in_row(statements, row, {{var, at}}))};
  }

  /// The statements for the iteration that is `lane` after that of `var`.
  static Block at_lane(const Block& statements, VarId var, VarId lane) {
    Substitution by;
    by.vars[var] = affine_add(affine_var(var), affine_var(lane));
    Block made;
    for (const StmtPtr& stmt : statements) made.push_back(substitute(stmt, by));
    return made;
  }

  Block reduction(const Reduction& r) {
    const DType type = r.declare->value->dtype;
    const ValuePtr none = make_constant(*neutral(r.op, type));
    const std::size_t which = longest_loop(r.loops);
    const Stmt& loop = *r.loops[which];
    std::int64_t threads = threads_;
    while (threads > iterations_of(loop)) threads /= 2;
    Block body;
    const LocalId sums = in_.fresh.local();
    body.push_back(
        make_declare(sums, none, at_once_ == 1 ? Dims{threads} : Dims{at_once_, threads}));
    const auto element = [&](const Affine& row, const Affine& place) {
      return at_once_ == 1 ? std::vector{place} : std::vector{row, place};
    };
    // A thread's own terms. The local of the reduction's sum stands for the thread's sum.
    const LocalId own = in_.fresh.local();
    const Block terms = terms_of(r, which, own);
    const auto summed = [&](const Affine& row, const Affine& place, const ValuePtr& start,
                            Block made) {
      made.insert(made.begin(), make_declare(own, start));
      made.push_back(make_assign(sums, make_local(own, type), element(row, place)));
      return with_own_names(in_.fresh, made, {});
    };
    const std::int64_t wide =
        neighbours_at_once(in_.lowered.loop, {make_assign(own, r.term)}, loop.var);
    const Block at_once = wide > 1 ? terms_at_once(r, which, own, wide) : terms;
    for (const Share& share : shares(loop, threads, wide, at_once)) {
      const bool is_first = body.size() == 1;
      body.push_back(each(share.threads, [&](const Affine& row, const Affine& place) {
        return summed(row, place, is_first ? none : make_local(sums, type, element(row, place)),
                      shared_out(loop.var, share, row, place, share.each > 1 ? at_once : terms));
      }));
    }
    for (std::int64_t half = threads / 2; half > 0; half /= 2) {
      body.push_back(each(half, [&](const Affine& row, const Affine& place) {
        const ValuePtr low = make_local(sums, type, element(row, place));
        const ValuePtr high =
            make_local(sums, type, element(row, affine_add(place, Affine{half, {}})));
        return Block{make_assign(sums, joined(r, low, high), element(row, place))};
      }));
    }
    append(body, scalars({r.declare}));
    body.push_back(each(1, [&](const Affine& row, const Affine& place) {
      const LocalId all = scalars_.at(r.declare->local);
      const ValuePtr sum = make_local(sums, type, element(row, place));
      return Block{make_assign(all, joined(r, make_local(all, type, {row}), sum), {row})};
    }));
    return body;
  }

  /// As terms_of(), for `count` neighbouring iterations: the thread makes all terms first.
  Block terms_at_once(const Reduction& r, std::size_t at, LocalId sum, std::int64_t count) {
    const DType type = r.declare->value->dtype;
    const LocalId terms = in_.fresh.local();
    const VarId lane = in_.fresh.var(), term = in_.fresh.var();
    const Block make{make_assign(terms, r.term, {affine_var(lane)})};
    const ValuePtr next = make_local(terms, type, {affine_var(term)});
    const StmtPtr add = make_assign(sum, joined(r, make_local(sum, type), next));
    Block body{make_declare(terms, make_constant(*neutral(r.op, type)), {count}),
               make_loop(lane, 0, count, at_lane(make, r.loops[at]->var, lane), LoopMark::lanes),
               make_loop(term, 0, count, {add}, LoopMark::unroll)};
    for (std::size_t k = r.loops.size(); k-- > 0;) {
      if (k != at) body = {with_body(*r.loops[k], body)};
    }
    return body;
  }

  Scheduling& in_;
  const std::vector<StmtPtr>& rows_;
  const std::vector<RowStep>& steps_;
  std::int64_t threads_ = 1;  ///< per row
  // State of the current nest:
  std::int64_t at_once_ = 1;  ///< rows of a group
  Substitution by_;
  Affine first_row_;
  std::map<LocalId, LocalId> scalars_;
};

/// True if contiguous elements belong to the same row, rather than to neighbouring rows.
bool lie_along_rows(const Loop& loop, const std::vector<StmtPtr>& rows,
                    const std::vector<RowStep>& steps) {
  std::size_t along = 0, across = 0;
  const auto look = [&](BufferId buffer, const std::vector<Affine>& at, VarId var) {
    along += stride(loop, buffer, at, var) == 1 ? 1 : 0;
    if (!rows.empty()) across += stride(loop, buffer, at, rows.back()->var) == 1 ? 1 : 0;
  };
  for (const RowStep& step : steps) {
    if (step.kind == RowStep::Kind::scalar) continue;
    const VarId var = shared_loop(step)->var;
    const auto of_value = [&](const Value& v) {
      if (v.kind == ValueKind::load) look(v.buffer, v.subscripts, var);
    };
    if (step.reduction) walk(*step.reduction->term, of_value);
    walk(step.statements, [&](const Stmt& stmt) {
      if (stmt.value) walk(*stmt.value, of_value);
      if (stmt.kind == StmtKind::store) look(stmt.buffer, stmt.subscripts, var);
    });
  }
  return along > across;
}

/// The reduction, if `steps` consist of a reduction and scalars after it; otherwise null.
const Reduction* alone(const std::vector<RowStep>& steps) {
  const bool found = !steps.empty() && steps[0].kind == RowStep::Kind::reduction &&
                     std::ranges::all_of(steps.begin() + 1, steps.end(), [](const RowStep& step) {
                       return step.kind == RowStep::Kind::scalar;
                     });
  return found ? &*steps[0].reduction : nullptr;
}

std::optional<Block> scheduled(Scheduling& in, const std::vector<StmtPtr>& rows,
                               const std::vector<RowStep>& steps) {
  Block made = Rows(in, rows, steps).build();
  if (!std::ranges::all_of(made, shared_out_loops_share_nothing)) return std::nullopt;
  return made;
}

}  // namespace

std::optional<Block> schedule_rows_on_gpu(Scheduling& in, const std::vector<StmtPtr>& rows,
                                          const Block& body) {
  const std::optional<std::vector<RowStep>> steps = steps_of(body);
  if (!steps || !lie_along_rows(in.lowered.loop, rows, *steps)) return std::nullopt;
  std::int64_t count = 1, longest_row = 0;
  for (const StmtPtr& row : rows) count = std::min(count * iterations_of(*row), gpu_groups_wanted);
  for (const RowStep& step : *steps) {
    if (step.kind != RowStep::Kind::scalar)
      longest_row = std::max(longest_row, iterations_of(*shared_loop(step)));
  }
  if (longest_row < warp_threads) return std::nullopt;
  const Reduction* const sum = alone(*steps);
  if (sum == nullptr || count >= gpu_groups_wanted || longest_row < 2 * gpu_part_terms)
    return scheduled(in, rows, *steps);
  Block rest;
  for (std::size_t k = 1; k < steps->size(); ++k) append(rest, (*steps)[k].statements);
  Block all;
  constexpr std::int64_t parts_max = 1024;  // that the second of two reductions joins
  const std::int64_t parts = std::clamp<std::int64_t>(longest_row / gpu_part_terms, 2, parts_max);
  for (const GpuNest& nest : cut_sum(in, rows, *sum, rest, parts)) {
    const std::optional<std::vector<RowStep>> part = steps_of(nest.body);
    std::optional<Block> made = part ? scheduled(in, nest.loops, *part) : std::nullopt;
    if (!made) return std::nullopt;
    append(all, *made);
  }
  return all;
}

}  // namespace heddle::jit
