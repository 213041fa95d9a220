// See schedule/row_reduction.hpp.
#include "jit/schedule/row_reduction.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "jit/loop/rewrite.hpp"
#include "jit/schedule/joined_loops.hpp"
#include "jit/schedule/tiles.hpp"
#include "jit/vector/lanes.hpp"

namespace heddle::jit {
namespace {

/// A row whose elements belong to a few columns in turn: one sum per column.
struct Columns {
  std::int64_t count = 1;
  VarId var = 0;    ///< of the loop over columns, in `after`
  Block after{};    ///< the statements that use a column's sum
  VarId place = 0;  ///< in the term: the element's index in the vectors of sums
  /// fills blocks with elements shared by all rows, repeated to the length of the sums
  Block repeated{};
};

class RowReduction {
 public:
  RowReduction(Scheduling& in, const Reduction& r)
      : in_(in), r_(r), type_(r.declare->value->dtype), width_(in.target.lanes(type_)) {
    sums_ = std::min(sums_max, row() / std::max<std::int64_t>(1, width_));
    while ((sums_ & (sums_ - 1)) != 0) --sums_;
  }
  /// `sums`: a number of vectors of sums such that each lane has elements of a single column.
  RowReduction(Scheduling& in, const Reduction& r, Columns columns, std::int64_t sums)
      : in_(in),
        r_(r),
        type_(r.declare->value->dtype),
        width_(in.target.lanes(type_)),
        sums_(sums),
        columns_(std::move(columns)) {}

  std::optional<Block> build() {
    if (width_ < 2 || row() < std::max<std::int64_t>(1, sums_) * width_ || !is_vector())
      return std::nullopt;
    const LocalId sums = in_.fresh.local();
    std::string about = fmt::format("reduction: {} x {} at once", sums_, width_);
    if (columns_) about += fmt::format(", for {} columns", columns_->count);
    if (const std::int64_t blocks = blocks_of(row()); blocks > 1) {
      about += fmt::format(", in {} blocks", blocks);
      return in_blocks(blocks, sums, about);
    }
    Block body{comment(about)};
    begin(sums, body);
    body.push_back(around(all_terms(sums, row())));
    fold(sums, body);
    return body;
  }

 private:
  [[nodiscard]] std::int64_t row() const { return r_.loops.back()->to; }

  /// Declares the sums and, for a single sum, the start value.
  void begin(LocalId sums, Block& body) {
    if (!columns_) body.push_back(r_.declare);
    body.push_back(make_declare(sums, make_constant(*neutral(r_.op, type_)), {sums_, width_}));
    repeat(body);
  }
  void repeat(Block& body) {
    if (columns_) append(body, columns_->repeated);
  }

  [[nodiscard]] std::int64_t step() const { return sums_ * width_; }

  /// The comment, whose text also names the order of float terms.
  [[nodiscard]] StmtPtr comment(const std::string& about) const {
    return make_comment(about, is_floating(type_) ? about : std::string());
  }

  ValuePtr join(const ValuePtr& sum, const ValuePtr& term) const {
    return make_op(r_.op, r_.term_first ? std::vector{term, sum} : std::vector{sum, term});
  }

  /// `place`: the element's index in the vectors of sums.
  ValuePtr term_at(const Affine& at, const Affine& place) const {
    Substitution by;
    by.vars[r_.loops.back()->var] = at;
    if (columns_) by.vars[columns_->place] = place;
    return substitute(r_.term, by);
  }

  bool is_vector() {
    const VarId lane = in_.fresh.var();
    const LocalId sum = in_.fresh.local();
    // Repeated blocks have the sum's type and are read lane by lane: they do not affect the
    // decision.
    const ValuePtr term = rebuild(term_at(affine_var(lane), affine_var(lane)), [this](ValuePtr v) {
      const bool repeated = v->kind == ValueKind::local && !v->subscripts.empty() && columns_;
      return repeated ? make_constant(*neutral(r_.op, v->dtype)) : v;
    });
    const StmtPtr trial =
        make_loop(lane, 0, width_,
                  {make_declare(sum, term),
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

  /// lanes { sums[vector] joined with the terms from `from` on }
  StmtPtr into(LocalId sums, const Affine& vector, std::int64_t count, const Affine& from) {
    const VarId lane = in_.fresh.var();
    const std::vector<Affine> place{vector, affine_var(lane)};
    const ValuePtr term = term_at(affine_add(from, affine_var(lane)),
                                  affine_add(affine_scale(vector, width_), affine_var(lane)));
    return make_loop(lane, 0, count,
                     {make_assign(sums, join(make_local(sums, type_, place), term), place)},
                     LoopMark::lanes);
  }

  /// `count` steps from step `first` on; a step adds a vector to each sum.
  StmtPtr steps(LocalId sums, const Affine& first, std::int64_t count) {
    const VarId outer = in_.fresh.var();
    const VarId v = in_.fresh.var();
    const Affine from = affine_add(affine_scale(affine_add(first, affine_var(outer)), step()),
                                   affine_var(v, width_));
    return make_loop(
        outer, 0, count,
        {make_loop(v, 0, sums_, {into(sums, affine_var(v), width_, from)}, LoopMark::unroll)});
  }

  /// The terms after the whole steps: whole vectors go into the first sums; single terms go into
  /// lanes of the next sum, or into the scalar.
  void rest_of(LocalId sums, std::int64_t extent, bool into_lanes, Block& body) {
    std::int64_t done = extent / step() * step();
    const std::int64_t vectors = (extent - done) / width_;
    if (vectors > 0) {
      const VarId v = in_.fresh.var();
      const Affine from = affine_add(affine_var(v, width_), Affine{done, {}});
      body.push_back(
          make_loop(v, 0, vectors, {into(sums, affine_var(v), width_, from)}, LoopMark::unroll));
      done += vectors * width_;
    }
    if (done == extent) return;
    if (into_lanes || columns_) {
      body.push_back(into(sums, Affine{vectors, {}}, extent - done, Affine{done, {}}));
      return;
    }
    const VarId rest = in_.fresh.var();
    const Affine from = affine_add(affine_var(rest), Affine{done, {}});
    const ValuePtr sum = make_local(r_.declare->local, type_);
    body.push_back(make_loop(rest, 0, extent - done,
                             {make_assign(r_.declare->local, join(sum, term_at(from, {})))}));
  }

  Block all_terms(LocalId sums, std::int64_t extent) {
    Block body{steps(sums, Affine{}, extent / step())};
    rest_of(sums, extent, false, body);
    return body;
  }

  /// The number of blocks of terms that a sum of the top level is cut into; the blocks then run in
  /// parallel. The number is the same on every machine, since the order of the sum depends on it
  /// (W1).
  std::int64_t blocks_of(std::int64_t extent) const {
    constexpr std::int64_t blocks_max = 64;
    if (!in_.is_top) return 1;
    double work = static_cast<double>(extent) * static_cast<double>(size_of(type_));
    for (std::size_t k = 0; k + 1 < r_.loops.size(); ++k)
      work *= static_cast<double>(r_.loops[k]->to);
    const double parts = work / static_cast<double>(in_.target.sum_bytes);
    if (parts < 2) return 1;
    const std::int64_t units = units_of(extent);
    const auto most = static_cast<std::int64_t>(
        std::min(parts, static_cast<double>(std::min(units, blocks_max))));
    const std::int64_t each = (units + most - 1) / most;
    return (units + each - 1) / each;
  }
  /// The number of units that blocks consist of: iterations of the outermost reduced loop, or steps
  /// of the only loop.
  std::int64_t units_of(std::int64_t extent) const {
    return r_.loops.size() > 1 ? r_.loops.front()->to : extent / step();
  }

  /// Stores the sums of each block to scratch, and then joins them in order.
  Block in_blocks(std::int64_t blocks, LocalId sums, const std::string& about) {
    const std::int64_t extent = r_.loops.back()->to;
    const std::int64_t units = units_of(extent);
    const std::int64_t each = (units + blocks - 1) / blocks;
    const BufferId partial = in_.add_scratch("partial sums", type_, {blocks, sums_, width_});
    Block body{comment(about)};
    for (const Segment& segment : whole_tiles(units, each)) {
      const VarId b = in_.fresh.var();
      const Affine number = affine_add(affine_var(b), Affine{segment.offset / each, {}});
      const Affine first = affine_add(affine_var(b, each), Affine{segment.offset, {}});
      body.push_back(
          make_loop(b, 0, segment.count, block_of(first, segment.size, partial, number)));
    }
    begin(sums, body);
    const VarId b = in_.fresh.var();
    const VarId v = in_.fresh.var();
    const VarId l = in_.fresh.var();
    const std::vector<Affine> place{affine_var(v), affine_var(l)};
    const ValuePtr part = make_load(partial, type_, {affine_var(b), affine_var(v), affine_var(l)});
    const StmtPtr lanes = make_loop(
        l, 0, width_, {make_assign(sums, join(make_local(sums, type_, place), part), place)},
        LoopMark::lanes);
    body.push_back(make_loop(b, 0, blocks, {make_loop(v, 0, sums_, {lanes}, LoopMark::unroll)}));
    if (r_.loops.size() == 1) rest_of(sums, extent, false, body);
    fold(sums, body);
    return body;
  }

  Block block_of(const Affine& first, std::int64_t count, BufferId partial, const Affine& number) {
    const std::int64_t extent = r_.loops.back()->to;
    const LocalId sums = in_.fresh.local();
    Block body{make_declare(sums, make_constant(*neutral(r_.op, type_)), {sums_, width_})};
    repeat(body);
    if (r_.loops.size() == 1) {
      body.push_back(steps(sums, first, count));
    } else {
      Block terms{steps(sums, Affine{}, extent / step())};
      rest_of(sums, extent, true, terms);
      for (std::size_t k = r_.loops.size() - 1; k-- > 0;) {
        const VarId var = in_.fresh.var();
        Substitution by;
        by.vars[r_.loops[k]->var] = k == 0 ? affine_add(first, affine_var(var)) : affine_var(var);
        for (StmtPtr& stmt : terms) stmt = substitute(stmt, by);
        terms = {make_loop(var, 0, k == 0 ? count : r_.loops[k]->to, std::move(terms))};
      }
      body.insert(body.end(), terms.begin(), terms.end());
    }
    const VarId v = in_.fresh.var();
    const VarId l = in_.fresh.var();
    const StmtPtr lanes =
        make_loop(l, 0, width_,
                  {make_store(partial, {number, affine_var(v), affine_var(l)},
                              make_local(sums, type_, {affine_var(v), affine_var(l)}))},
                  LoopMark::lanes);
    body.push_back(make_loop(v, 0, sums_, {lanes}, LoopMark::unroll));
    return with_own_names(in_.fresh, body, {});  // repeated blocks exist in each block of terms
  }

  void fold(LocalId sums, Block& body) {
    if (columns_) return fold_columns(sums, body);
    fold_vectors(sums, body);
    fold_lanes(sums, body);
  }

  /// for each column { start value, then its elements in order; after }
  void fold_columns(LocalId sums, Block& body) {
    const LocalId all = in_.fresh.local();
    const VarId v = in_.fresh.var();
    const VarId l = in_.fresh.var();
    body.push_back(make_declare(all, make_constant(*neutral(r_.op, type_)), {step()}));
    const ValuePtr sum = make_local(sums, type_, {affine_var(v), affine_var(l)});
    const Affine at = affine_add(affine_var(v, width_), affine_var(l));
    const StmtPtr lanes = make_loop(l, 0, width_, {make_assign(all, sum, {at})}, LoopMark::lanes);
    body.push_back(make_loop(v, 0, sums_, {lanes}, LoopMark::unroll));
    const VarId row = in_.fresh.var();
    const ValuePtr element = make_local(
        all, type_, {affine_add(affine_var(row, columns_->count), affine_var(columns_->var))});
    Block column{r_.declare,
                 make_loop(row, 0, step() / columns_->count,
                           {make_assign(r_.declare->local,
                                        join(make_local(r_.declare->local, type_), element))})};
    append(column, columns_->after);
    body.push_back(make_loop(columns_->var, 0, columns_->count, std::move(column)));
  }

  /// Joins vectors pairwise, into the first vector.
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

  /// Joins lanes pairwise, and then the start value.
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
      // Lanes that fill a smaller register are joined there.
      const bool is_vector = half * static_cast<std::int64_t>(size_of(type_)) >= 16;
      body.push_back(make_loop(q, 0, half, {make_assign(row, join(low, high), {affine_var(q)})},
                               is_vector ? LoopMark::lanes : LoopMark::unroll));
    }
    const ValuePtr all = make_local(row, type_, {Affine{}});
    body.push_back(make_assign(r_.declare->local, join(make_local(r_.declare->local, type_), all)));
  }

  Scheduling& in_;
  const Reduction& r_;
  const DType type_;
  const std::int64_t width_;
  std::int64_t sums_ = 1;
  std::optional<Columns> columns_;
};

/// True if the term reads a buffer that the statements store to: one column could then read a
/// result of another.
bool reads_what_is_stored(const Value& term, const Block& statements) {
  bool found = false;
  walk(term, [&](const Value& v) {
    found = found ||
            (v.kind == ValueKind::load && std::ranges::any_of(statements, [&](const StmtPtr& stmt) {
               return stmt->kind == StmtKind::store && stmt->buffer == v.buffer;
             }));
  });
  return found;
}

/// Replaces loads of the term that move with `column`, but with no reduced loop, by elements of
/// blocks, which `columns` fills. Returns false where such a load has another type than the sum.
bool repeat_what_rows_share(Scheduling& in, Reduction& r, const Stmt& column, std::int64_t elements,
                            Columns& columns) {
  const Loop& loop = in.lowered.loop;
  bool same_type = true;
  r.term = rebuild(r.term, [&](ValuePtr v) {
    const auto moves_with = [&](const StmtPtr& each) {
      return stride(loop, v->buffer, v->subscripts, each->var) != 0;
    };
    if (v->kind != ValueKind::load || stride(loop, v->buffer, v->subscripts, column.var) == 0 ||
        std::ranges::any_of(r.loops, moves_with))
      return v;
    same_type = same_type && v->dtype == r.declare->value->dtype;
    const LocalId block = in.fresh.local();
    const VarId row = in.fresh.var();
    const VarId of = in.fresh.var();
    Substitution by;
    by.vars[column.var] = affine_var(of);
    const Affine at = affine_add(affine_var(row, column.to), affine_var(of));
    const StmtPtr copy = make_assign(block, substitute(v, by), {at});
    columns.repeated.push_back(
        make_declare(block, make_constant(*neutral(Op::add, v->dtype)), {elements}));
    columns.repeated.push_back(
        make_loop(row, 0, elements / column.to, {make_loop(of, 0, column.to, {copy})}));
    return make_local(block, v->dtype, {affine_var(columns.place)});
  });
  return same_type;
}

}  // namespace

std::optional<Block> schedule_narrow_columns(Scheduling& in, const StmtPtr& nest, Reduction r,
                                             Block after) {
  const DType type = r.declare->value->dtype;
  const std::int64_t width = in.target.lanes(type);
  if (!neutral(r.op, type) || nest->to < 2 || nest->to >= width ||
      reads_what_is_stored(*r.term, after))
    return std::nullopt;
  const std::int64_t vectors = nest->to / std::gcd(nest->to, width);
  const std::int64_t sums = vectors * std::max<std::int64_t>(1, sums_max / vectors);
  Columns columns{nest->to, nest->var, std::move(after), in.fresh.var()};
  r = with_joined_loops(in.lowered.loop, std::move(r));
  if (!repeat_what_rows_share(in, r, *nest, sums * width, columns)) return std::nullopt;
  const Stmt& rows = *r.loops.back();
  if (!may_join(in.lowered.loop, *r.term, rows, *nest)) return std::nullopt;
  const VarId element = in.fresh.var();
  r.term = joined_term(in.lowered.loop, r.term, rows);
  Substitution by;
  by.vars[nest->var] = affine_var(element);
  r.term = substitute(r.term, by);
  r.loops.back() = make_loop(element, 0, rows.to * nest->to, {});
  return RowReduction(in, r, std::move(columns), sums).build();
}

std::optional<Block> schedule_row_reduction(Scheduling& in, const StmtPtr& declare,
                                            const StmtPtr& nest) {
  const std::optional<Reduction> found = match_reduction(declare, nest);
  if (!found || !neutral(found->op, declare->value->dtype)) return std::nullopt;
  return RowReduction(in, with_joined_loops(in.lowered.loop, *found)).build();
}

}  // namespace heddle::jit
