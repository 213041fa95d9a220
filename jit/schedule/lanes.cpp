// See schedule/lanes.hpp.
#include "jit/schedule/lanes.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "jit/loop/rewrite.hpp"
#include "jit/loop/verify.hpp"
#include "jit/vector/lanes.hpp"

namespace heddle::jit {

bool runs_as_vectors(const Scheduling& in, const StmtPtr& lanes) {
  const Block alone{lanes};
  if (!broken_mark(alone).empty()) return false;
  return plan_lanes(in.lowered.loop.buffers, alone, in.target).vectors.contains(lanes->var);
}

Block with_subtractions(const Block& body) {
  const auto subtracted = [](ValuePtr v) {
    if (v->kind != ValueKind::op || v->op != Op::add || !is_floating(v->dtype)) return v;
    const auto is_negative = [](const Value& each) {
      return each.kind == ValueKind::op && each.op == Op::neg;
    };
    if (is_negative(*v->args[1])) return make_op(Op::sub, {v->args[0], v->args[1]->args[0]});
    if (is_negative(*v->args[0])) return make_op(Op::sub, {v->args[1], v->args[0]->args[0]});
    return v;
  };
  const auto change = [&](const StmtPtr& stmt, bool lanes, const auto& self) -> StmtPtr {
    Block inner;
    const bool within = lanes || stmt->mark == LoopMark::lanes;
    for (const StmtPtr& each : stmt->body) inner.push_back(self(each, within, self));
    const StmtPtr made = inner == stmt->body ? stmt : with_body(*stmt, std::move(inner));
    if (!lanes || !made->value) return made;
    const ValuePtr value = rebuild(made->value, subtracted);
    return value == made->value ? made : with_value(*made, value);
  };
  Block made;
  for (const StmtPtr& stmt : body) made.push_back(change(stmt, false, change));
  return made;
}

Block copy_at(Scheduling& in, const Block& body, VarId var, const Affine& at) {
  Substitution by;
  by.vars[var] = at;
  return copied(in, body, std::move(by));
}

std::optional<Reduction> match_reduction(const StmtPtr& declare, const StmtPtr& nest,
                                         bool positions) {
  if (declare->kind != StmtKind::declare || !declare->dims.empty()) return std::nullopt;
  Reduction found;
  found.declare = declare;
  StmtPtr inner = nest;
  const auto goes_on = [&](const Stmt& stmt) {
    if (stmt.body.size() != 1) return false;
    if (stmt.kind == StmtKind::at) return positions && !found.loops.empty();
    return stmt.kind == StmtKind::loop && stmt.mark == LoopMark::serial && stmt.from == 0 &&
           stmt.to > 0;
  };
  while (goes_on(*inner)) {
    found.has_positions = found.has_positions || inner->kind == StmtKind::at;
    found.loops.push_back(inner);
    inner = StmtPtr(inner->body[0]);
  }
  if (found.loops.empty() || inner->kind != StmtKind::assign || inner->local != declare->local)
    return std::nullopt;
  const Value& next = *inner->value;
  if (next.kind != ValueKind::op || next.args.size() != 2) return std::nullopt;
  constexpr std::array ops{Op::add, Op::mul, Op::max, Op::min, Op::and_, Op::or_};
  if (std::ranges::find(ops, next.op) == ops.end()) return std::nullopt;
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

}  // namespace heddle::jit
