// See gpu_sums.hpp.
#include "jit/schedule/gpu_sums.hpp"

#include <algorithm>
#include <utility>

#include "jit/loop/rewrite.hpp"
#include "jit/schedule/tiles.hpp"

namespace heddle::jit {

std::int64_t iterations_of(const Stmt& loop) { return loop.to - loop.from; }

std::size_t longest_loop(const std::vector<StmtPtr>& loops) {
  std::size_t best = 0;
  for (std::size_t k = 1; k < loops.size(); ++k) {
    if (iterations_of(*loops[k]) >= iterations_of(*loops[best])) best = k;
  }
  return best;
}

ValuePtr joined(const Reduction& r, const ValuePtr& sum, const ValuePtr& term) {
  return make_op(r.op, r.term_first ? std::vector{term, sum} : std::vector{sum, term});
}

Block terms_of(const Reduction& r, std::size_t at, LocalId sum) {
  const DType type = r.declare->value->dtype;
  Block body{make_assign(sum, joined(r, make_local(sum, type), r.term))};
  for (std::size_t k = r.loops.size(); k-- > 0;) {
    if (k != at) body = {with_body(*r.loops[k], body)};
  }
  return body;
}

namespace {

/// Reduces parts of each row to scratch, and then the parts in place of the row.
class CutSums {
 public:
  CutSums(Scheduling& in, const std::vector<StmtPtr>& rows, const Reduction& r)
      : in_(in), rows_(rows), r_(r), which_(longest_loop(r.loops)) {}

  /// The nests. Each has the loops of `rows` as its outermost loops, or one loop more; the last
  /// nest contains `rest`.
  std::vector<GpuNest> cut(const Block& rest, std::int64_t parts) {
    const Stmt& loop = *r_.loops[which_];
    const auto segments =
        whole_tiles(iterations_of(loop), (iterations_of(loop) + parts - 1) / parts);
    const DType type = r_.declare->value->dtype;
    Dims dims;
    for (const StmtPtr& row : rows_) dims.push_back(row->to);
    dims.push_back(num_tiles(segments));
    const BufferId partial = in_.add_scratch("partial sums", type, dims);
    std::vector<GpuNest> nests;
    std::int64_t number = 0;
    for (const Segment& segment : segments) {
      nests.push_back(part(partial, segment, number));
      number += segment.count;
    }
    Reduction of_parts = r_;
    const VarId part = in_.fresh.var();
    std::vector<Affine> at = row_subscripts();
    at.push_back(affine_var(part));
    of_parts.term = make_load(partial, type, at);
    of_parts.loops = {make_loop(part, 0, number, {})};
    Block body{r_.declare, make_loop(part, 0, number, terms_of(of_parts, 0, r_.declare->local))};
    append(body, rest);
    nests.push_back(own_names(rows_, body));
    return nests;
  }

 private:
  [[nodiscard]] std::vector<Affine> row_subscripts() const {
    std::vector<Affine> at;
    for (const StmtPtr& row : rows_) at.push_back(affine_var(row->var));
    return at;
  }

  GpuNest part(BufferId partial, const Segment& segment, std::int64_t number) {
    const Stmt& loop = *r_.loops[which_];
    const DType type = r_.declare->value->dtype;
    const VarId part = in_.fresh.var(), inner = in_.fresh.var();
    const Affine first =
        affine_add(affine_var(part, segment.size), Affine{loop.from + segment.offset, {}});
    Substitution by;
    by.vars[loop.var] = affine_add(first, affine_var(inner));
    Reduction of_part = r_;
    of_part.term = substitute(r_.term, by);
    of_part.loops[which_] = make_loop(inner, 0, segment.size, {});
    std::vector<Affine> at = row_subscripts();
    at.push_back(affine_add(affine_var(part), Affine{number, {}}));
    const LocalId sum = in_.fresh.local();
    const Block terms = terms_of(of_part, which_, sum);
    const Block body{make_declare(sum, make_constant(*neutral(r_.op, type))),
                     make_loop(inner, 0, segment.size, terms),
                     make_store(partial, at, make_local(sum, type))};
    std::vector<StmtPtr> loops = rows_;
    loops.push_back(make_loop(part, 0, segment.count, {}));
    return own_names(loops, body);
  }

  GpuNest own_names(const std::vector<StmtPtr>& loops, const Block& body) {
    std::vector<StmtPtr> made;
    Substitution by;
    for (const StmtPtr& loop : loops) {
      const VarId var = by.loops[loop->var] = in_.fresh.var();
      made.push_back(make_loop(var, loop->from, loop->to, {}));
    }
    return {made, with_own_names(in_.fresh, body, by)};
  }

  Scheduling& in_;
  const std::vector<StmtPtr>& rows_;
  const Reduction& r_;
  const std::size_t which_;
};

}  // namespace

std::vector<GpuNest> cut_sum(Scheduling& in, const std::vector<StmtPtr>& rows, const Reduction& r,
                             const Block& rest, std::int64_t parts) {
  return CutSums(in, rows, r).cut(rest, parts);
}

}  // namespace heddle::jit
