// See schedule/row_reduction.hpp.
#include "jit/schedule/row_reduction.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "jit/loop/rewrite.hpp"
#include "jit/schedule/lanes.hpp"

namespace heddle::jit {
namespace {

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

}  // namespace heddle::jit
