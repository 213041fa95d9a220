// See schedule/joined_loops.hpp.
#include "jit/schedule/joined_loops.hpp"

#include <algorithm>
#include <utility>

#include "jit/loop/address.hpp"
#include "jit/loop/rewrite.hpp"
#include "jit/vector/lanes.hpp"

namespace heddle::jit {
namespace {

bool moves(const Affine& index, VarId var) { return split_lane(index, var).second != 0; }

std::int64_t step_of(const Loop& loop, const Value& load, VarId var) {
  return stride(loop, load.buffer, load.subscripts, var);
}

/// True if the buffer is never written. Initialisation of other buffers is tracked element by
/// element, so their loads stay as they are.
bool is_read_only(const Loop& loop, BufferId id) {
  const Role role = loop.buffers[id].role;
  return role == Role::input || role == Role::merge;
}

bool has_statics(const Value& load) {
  return std::ranges::any_of(load.subscripts, [](const Affine& index) {
    return std::ranges::any_of(index.terms, [](const AffineTerm& term) {
      return term.kind == AffineTerm::Kind::static_index;
    });
  });
}

/// Sorts the loops by the first load that is contiguous along one of them, if no load is contiguous
/// along the innermost loop.
void sort_loops(const Loop& loop, Reduction& r) {
  const Value* along = nullptr;
  bool innermost = false;
  walk(*r.term, [&](const Value& v) {
    if (v.kind != ValueKind::load) return;
    innermost = innermost || step_of(loop, v, r.loops.back()->var) == 1;
    const bool any = std::ranges::any_of(
        r.loops, [&](const StmtPtr& each) { return step_of(loop, v, each->var) == 1; });
    if (any && along == nullptr) along = &v;
  });
  if (innermost || along == nullptr) return;
  std::ranges::stable_sort(r.loops, std::ranges::greater(), [&](const StmtPtr& each) {
    const std::int64_t step = step_of(loop, *along, each->var);
    return step < 0 ? -step : step;
  });
}

}  // namespace

bool may_join(const Loop& loop, const Value& term, const Stmt& outer, const Stmt& inner) {
  bool may = true;
  walk(term, [&](const Value& v) {
    const bool moved = moves(v.index, outer.var) || moves(v.index, inner.var) ||
                       std::ranges::any_of(v.subscripts, [&](const Affine& index) {
                         return moves(index, outer.var) || moves(index, inner.var);
                       });
    if (!moved) return;
    may = may && v.kind == ValueKind::load && is_read_only(loop, v.buffer) && !has_statics(v) &&
          step_of(loop, v, outer.var) == inner.to * step_of(loop, v, inner.var);
  });
  return may;
}

ValuePtr joined_term(const Loop& loop, const ValuePtr& term, const Stmt& outer) {
  return rebuild(term, [&](ValuePtr v) {
    if (v->kind != ValueKind::load || step_of(loop, *v, outer.var) == 0) return v;
    const Affine flat = flatten(loop.buffers[v->buffer].type, v->subscripts);
    return make_load(v->buffer, v->dtype, {split_lane(flat, outer.var).first});
  });
}

Reduction with_joined_loops(const Loop& loop, Reduction r) {
  sort_loops(loop, r);
  for (StmtPtr& each : r.loops) each = make_loop(each->var, 0, each->to, {});
  for (std::size_t k = r.loops.size() - 1; k > 0; --k) {
    const Stmt& outer = *r.loops[k - 1];
    const Stmt& inner = *r.loops[k];
    if (!may_join(loop, *r.term, outer, inner)) continue;
    r.term = joined_term(loop, r.term, outer);
    r.loops[k - 1] = make_loop(inner.var, 0, outer.to * inner.to, {});
    r.loops.erase(r.loops.begin() + static_cast<std::ptrdiff_t>(k));
  }
  return r;
}

}  // namespace heddle::jit
