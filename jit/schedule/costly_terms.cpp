// See costly_terms.hpp.
#include "jit/schedule/costly_terms.hpp"

#include <functional>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "jit/schedule/elementwise.hpp"
#include "jit/schedule/footprint.hpp"
#include "jit/schedule/lanes.hpp"
#include "jit/vector/value_cost.hpp"

namespace heddle::jit {
namespace {

/// A reduction of rows in a nest.
class CostlyTerms {
 public:
  CostlyTerms(Scheduling& in, const StmtPtr& nest) : in_(in), nest_(nest) {}

  /// The loops of the terms, and the nest that reads them; none where that would not be faster.
  [[nodiscard]] std::optional<Block> apart() {
    StmtPtr inner = nest_;
    while (inner->kind == StmtKind::loop && inner->mark == LoopMark::serial && inner->from == 0) {
      around_.push_back(inner);
      if (inner->body.size() != 1) break;
      inner = StmtPtr(inner->body[0]);
    }
    if (around_.empty()) return std::nullopt;
    const Block& body = around_.back()->body;
    for (std::size_t k = 0; k + 1 < body.size(); ++k) {
      const std::optional<Reduction> r = match_reduction(body[k], body[k + 1]);
      if (r && r->loops.size() == 1 && has_costly(*r->term) && stands_alone(*r->term))
        return terms_of(*r, k);
    }
    return std::nullopt;
  }

 private:
  /// True if the term has the same value before the nest.
  [[nodiscard]] bool stands_alone(const Value& term) const {
    bool alone = true;
    walk(term, [&](const Value& v) {
      alone = alone && v.kind != ValueKind::local;
      walk(nest_->body, [&](const Stmt& stmt) {
        alone = alone && !(v.kind == ValueKind::load && v.buffer == stmt.buffer &&
                           (stmt.kind == StmtKind::store || stmt.kind == StmtKind::zero));
      });
    });
    return alone;
  }

  [[nodiscard]] std::optional<Block> terms_of(const Reduction& r, std::size_t at) {
    const Stmt& along = *r.loops[0];
    const DType type = r.term->dtype;
    // A row stays in the first-level cache, and has vectors for several functions at a time.
    const std::int64_t row_max = in_.target.l1_bytes / 4 / static_cast<std::int64_t>(size_of(type));
    if (along.to < 4 * in_.target.lanes(type) || along.to > row_max) return std::nullopt;
    Dims dims;
    std::vector<Affine> place, read;
    Substitution by;
    std::vector<StmtPtr> loops = around_;
    loops.push_back(r.loops[0]);
    for (const StmtPtr& each : loops) {
      const VarId var = in_.fresh.var();
      by.vars[each->var] = affine_var(var);
      dims.push_back(each->to);
      place.push_back(affine_var(var));
      read.push_back(affine_var(each->var));
    }
    // Once joined, the loops need the rows of one iteration of the outermost.
    const auto bytes = static_cast<std::int64_t>(size_of(type));
    if (std::accumulate(dims.begin() + 1, dims.end(), bytes, std::multiplies<>()) >
        in_.target.l2_bytes / 4)
      return std::nullopt;
    const std::size_t buffers = in_.lowered.loop.buffers.size();
    const BufferId terms = in_.add_scratch("terms of rows", type, std::move(dims));
    StmtPtr nest = make_store(terms, place, substitute(r.term, by));
    for (std::size_t k = loops.size(); k-- > 0;)
      nest = make_loop(place[k].terms[0].id, 0, loops[k]->to, {nest});
    if (!is_elementwise(in_, nest)) {
      in_.drop_scratch(buffers);
      return std::nullopt;
    }
    const ValuePtr sum = make_local(r.declare->local, type);
    const ValuePtr term = make_load(terms, type, read);
    Block body = around_.back()->body;
    body[at + 1] = make_loop(
        along.var, 0, along.to,
        {make_assign(r.declare->local, make_op(r.op, r.term_first ? std::vector{term, sum}
                                                                  : std::vector{sum, term}))});
    for (std::size_t k = around_.size(); k-- > 0;) body = {with_body(*around_[k], std::move(body))};
    return Block{nest, body[0]};
  }

  Scheduling& in_;
  const StmtPtr nest_;
  std::vector<StmtPtr> around_;
};

/// True if the loop reads what the terms read, and may run before the sum of the terms.
bool goes_with(const Stmt& loop, const Stmt& terms, const Stmt& sum) {
  if (loop.kind != StmtKind::loop || loop.mark != LoopMark::serial) return false;
  const Footprint mine = footprint(loop), sums = footprint(sum), reads = footprint(terms);
  bool shares = false, apart = true;
  for (const auto& [buffer, use] : mine) {
    const auto other = sums.find(buffer);
    apart = apart && (other == sums.end() || !(use.written || other->second.written));
    shares = shares || reads.contains(buffer);
  }
  return shares && apart;
}

}  // namespace

Block with_costly_terms_apart(Scheduling& in, const Block& body,
                              const std::function<bool(const StmtPtr&)>& stays_alone) {
  if (!declares_local(body)) return body;
  Block made;
  for (std::size_t k = 0; k < body.size(); ++k) {
    std::optional<Block> apart;
    if (body[k]->kind == StmtKind::loop && !stays_alone(body[k]))
      apart = CostlyTerms(in, body[k]).apart();
    if (!apart) {
      made.push_back(body[k]);
      continue;
    }
    const StmtPtr terms = apart->front(), sum = apart->back();
    made.push_back(terms);
    for (std::size_t next = past_comments(body, k + 1);
         next < body.size() && goes_with(*body[next], *terms, *sum);
         next = past_comments(body, k + 1)) {
      append_comments(made, body, k + 1, next);
      made.push_back(body[next]);
      k = next;
    }
    made.push_back(sum);
  }
  return made;
}

}  // namespace heddle::jit
