// See functions_apart.hpp.
#include "jit/schedule/functions_apart.hpp"

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "jit/loop/address.hpp"
#include "jit/loop/rewrite.hpp"
#include "jit/schedule/contraction.hpp"
#include "jit/schedule/lanes.hpp"
#include "jit/value/primitives.hpp"
#include "jit/vector/lane_prims.hpp"
#include "jit/vector/value_cost.hpp"

namespace heddle::jit {
namespace {

/// All scratch of functions, and that of one function in relation to what it loads.
constexpr std::int64_t functions_bytes_max = 64 << 20;
constexpr std::int64_t functions_per_load = 2;
/// With fewer, a vector has too little to do.
constexpr std::int64_t functions_min = 64;
/// Shorter rows that lie across stay in the first-level cache.
constexpr std::int64_t across_min = 32;

class FunctionsApart {
 public:
  explicit FunctionsApart(Scheduling& in) : in_(in) {}

  Block made(const Block& body) {
    Block result;
    for (std::size_t k = 0; k < body.size(); ++k) {
      // A reduction of all elements is two statements of the top level.
      Block each{body[k]};
      if (body[k]->kind == StmtKind::declare && k + 1 < body.size()) each.push_back(body[++k]);
      before_.clear();
      stored_.clear();
      find_written(each);
      const bool is_product = find_contraction(in_.lowered.loop, each.back()).has_value();
      const Block now = is_product ? each : changed(each);
      append(result, before_);
      append(result, now);
    }
    return result;
  }

 private:
  void find_written(const Block& body) {
    written_.clear();
    walk(body, [&](const Stmt& stmt) {
      if (stmt.kind == StmtKind::store || stmt.kind == StmtKind::zero) written_.insert(stmt.buffer);
    });
  }

  Block changed(const Block& body) {
    Block result;
    for (std::size_t k = 0; k < body.size(); ++k) {
      const StmtPtr& stmt = body[k];
      if (stmt->kind == StmtKind::declare && k + 1 < body.size()) {
        const std::optional<Reduction> r = match_reduction(stmt, body[k + 1]);
        if (const std::optional<StmtPtr> sum = r ? apart(*r) : std::nullopt) {
          result.push_back(stmt);
          result.push_back(*sum);
          ++k;
          continue;
        }
      }
      if (!is_serial_loop(stmt) || stmt->from != 0) {
        result.push_back(stmt);
        continue;
      }
      around_.push_back(stmt);
      result.push_back(with_body(*stmt, changed(stmt->body)));
      around_.pop_back();
    }
    return result;
  }

  /// True if the value has a costly function that lanes cannot compute.
  [[nodiscard]] bool has_no_lanes(const Value& value) const {
    bool found = false;
    walk(value, [&](const Value& v) {
      found = found || (v.kind == ValueKind::op && own_cost(v) >= costly && is_floating(v.dtype) &&
                        !runs_in_lanes(v));
    });
    return found;
  }
  [[nodiscard]] bool runs_in_lanes(const Value& op) const {
    const PrimFunction& function = op_function(op.op, op.args[0]->dtype, in_.target.isa);
    return is_lane_function(function, size_of(op.dtype), in_.target);
  }

  /// The loops of the reduction, with functions from scratch: the terms; or factors of the terms of
  /// a sum, which adds products in one step.
  std::optional<StmtPtr> apart(const Reduction& r) {
    const bool is_product =
        r.op == Op::add && r.term->kind == ValueKind::op && r.term->op == Op::mul;
    ValuePtr term;
    if (is_product) {
      const ValuePtr a = of_reduction(r, r.term->args[0]), b = of_reduction(r, r.term->args[1]);
      if (a || b) term = make_op(Op::mul, {a ? a : r.term->args[0], b ? b : r.term->args[1]});
    } else {
      term = of_reduction(r, r.term);
    }
    if (!term) return std::nullopt;
    const ValuePtr sum = make_local(r.declare->local, term->dtype);
    StmtPtr now =
        make_assign(r.declare->local,
                    make_op(r.op, r.term_first ? std::vector{term, sum} : std::vector{sum, term}));
    for (std::size_t k = r.loops.size(); k-- > 0;) now = with_body(*r.loops[k], {std::move(now)});
    return now;
  }

  /// The value of a reduction as an element of scratch; null where it stays.
  ValuePtr of_reduction(const Reduction& r, const ValuePtr& value) {
    std::vector<StmtPtr> loops = around_;
    loops.insert(loops.end(), r.loops.begin(), r.loops.end());
    const bool is_worth_it = has_no_lanes(*value) || reads_across(loops, *value, *r.term);
    return is_worth_it && stands_alone(*value) ? from_scratch(loops, value, *r.term) : nullptr;
  }

  /// The load of the term that moves with most of the loops; null if none does with any.
  [[nodiscard]] const Value* leading_load(const std::vector<StmtPtr>& loops,
                                          const Value& term) const {
    const Value* leading = nullptr;
    std::ptrdiff_t most = 0;
    walk(term, [&](const Value& v) {
      if (v.kind != ValueKind::load) return;
      const auto moves =
          std::ranges::count_if(loops, [&](const StmtPtr& loop) { return step_of(v, *loop) != 0; });
      if (moves > most) {
        leading = &v;
        most = moves;
      }
    });
    return leading;
  }
  [[nodiscard]] std::int64_t step_of(const Value& load, const Stmt& loop) const {
    return stride(in_.lowered.loop, load.buffer, load.subscripts, loop.var);
  }

  /// True if the value has loads that go across where the leading load of the term is contiguous,
  /// as x[j, i] beside x[i, j].
  [[nodiscard]] bool reads_across(const std::vector<StmtPtr>& loops, const Value& value,
                                  const Value& term) const {
    const auto along = [&](const Value& load) -> const Stmt* {
      const auto found = std::ranges::find_if(
          loops, [&](const StmtPtr& loop) { return step_of(load, *loop) == 1; });
      return found == loops.end() || (*found)->to < across_min ? nullptr : found->get();
    };
    const Value* const leading = leading_load(loops, term);
    const Stmt* const first = leading != nullptr ? along(*leading) : nullptr;
    bool across = false;
    walk(value, [&](const Value& v) {
      if (v.kind != ValueKind::load || first == nullptr || step_of(v, *first) == 0) return;
      const Stmt* const own = along(v);
      across = across || (own != nullptr && own != first);
    });
    return across;
  }

  /// The value as an element of scratch, which a new nest fills; null where that is too small or
  /// too large.
  ValuePtr from_scratch(const std::vector<StmtPtr>& around, const ValuePtr& value,
                        const Value& term) {
    for (const auto& [known, load] : stored_)
      if (equal(*known, *value)) return load;
    const DType type = value->dtype;
    const std::vector<StmtPtr> loops = loops_of(around, *value, term);
    Dims dims;
    std::vector<Affine> place, read;
    Substitution by;
    std::int64_t elements = 1;
    for (const StmtPtr& each : loops) {
      const VarId var = in_.fresh.var();
      by.vars[each->var] = affine_var(var);
      dims.push_back(each->to);
      place.push_back(affine_var(var));
      read.push_back(affine_var(each->var));
      elements *= each->to;
      if (elements > functions_bytes_max) return nullptr;
    }
    const std::int64_t bytes = elements * static_cast<std::int64_t>(size_of(type));
    const bool has_rows = !loops.empty() && loops.back()->to >= in_.target.lanes(type);
    if (elements < functions_min || !has_rows || bytes_ + bytes > functions_bytes_max ||
        bytes > functions_per_load * loaded_bytes(*value))
      return nullptr;
    bytes_ += bytes;
    const BufferId scratch = in_.add_scratch("functions", type, std::move(dims));
    StmtPtr nest = make_store(scratch, place, substitute(value, by));
    for (std::size_t k = loops.size(); k-- > 0;)
      nest = make_loop(place[k].terms[0].id, 0, loops[k]->to, {std::move(nest)});
    before_.push_back(std::move(nest));
    stored_.emplace_back(value, make_load(scratch, type, read));
    return stored_.back().second;
  }

  /// The bytes of the arrays that the value loads.
  [[nodiscard]] std::int64_t loaded_bytes(const Value& value) const {
    std::set<BufferId> buffers;
    walk(value, [&](const Value& v) {
      if (v.kind == ValueKind::load) buffers.insert(v.buffer);
    });
    std::int64_t bytes = 0;
    for (const BufferId buffer : buffers)
      bytes += in_.lowered.loop.buffers[buffer].type.num_bytes().value_or(0);
    return bytes;
  }

  /// True if the value is the same before the statements.
  [[nodiscard]] bool stands_alone(const Value& value) const {
    bool alone = true;
    walk(value, [&](const Value& v) {
      alone = alone && v.kind != ValueKind::local &&
              !(v.kind == ValueKind::load && written_.contains(v.buffer));
    });
    return alone;
  }

  /// The loops that the value depends on, in the order of the memory that the leading load of the
  /// term goes over.
  [[nodiscard]] std::vector<StmtPtr> loops_of(const std::vector<StmtPtr>& loops, const Value& value,
                                              const Value& term) const {
    std::set<VarId> used;
    const auto note = [&](const Affine& index) {
      for (const AffineTerm& each : index.terms)
        if (each.kind == AffineTerm::Kind::loop) used.insert(each.id);
    };
    walk(value, [&](const Value& v) {
      note(v.index);
      for (const Affine& index : v.subscripts) note(index);
    });
    const Value* const leading = leading_load(loops, term);
    std::vector<std::pair<std::int64_t, std::size_t>> order;  // negated steps, places
    for (std::size_t k = 0; k < loops.size(); ++k) {
      if (!used.contains(loops[k]->var)) continue;
      order.emplace_back(leading != nullptr ? -std::abs(step_of(*leading, *loops[k])) : 0, k);
    }
    std::ranges::sort(order);
    std::vector<StmtPtr> sorted;
    for (const auto& [step, k] : order) sorted.push_back(loops[k]);
    return sorted;
  }

  Scheduling& in_;
  std::int64_t bytes_ = 0;                             ///< of scratch so far
  std::set<BufferId> written_;                         ///< by the statements that are looked at
  std::vector<StmtPtr> around_;                        ///< the reduction, outermost first
  Block before_;                                       ///< the nests that fill scratch
  std::vector<std::pair<ValuePtr, ValuePtr>> stored_;  ///< values, and their elements of scratch
};

}  // namespace

Block with_functions_apart(Scheduling& in, const Block& body) {
  return declares_local(body) ? FunctionsApart(in).made(body) : body;
}

}  // namespace heddle::jit
