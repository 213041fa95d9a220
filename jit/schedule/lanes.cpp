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

Block copy_at(Scheduling& in, const Block& body, VarId var, const Affine& at) {
  Substitution by;
  by.vars[var] = at;
  return copied(in, body, std::move(by));
}

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
