// See transposes_apart.hpp.
#include "jit/schedule/transposes_apart.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "jit/loop/rewrite.hpp"
#include "jit/schedule/transpose.hpp"

namespace heddle::jit {
namespace {

/// True if the loop's statements only compute elements, none of which another iteration touches:
/// an axis of each stored buffer has one subscript everywhere, which moves with the loop.
bool are_iterations_apart(const Stmt& loop) {
  const auto moves = [&](const Affine& index) {
    return index.terms.size() == 1 && index.terms[0].kind == AffineTerm::Kind::loop &&
           index.terms[0].id == loop.var && index.terms[0].coefficient != 0;
  };
  std::set<BufferId> loads;
  walk_values(loop.body, [&](const Value& v) {
    if (v.kind == ValueKind::load) loads.insert(v.buffer);
  });
  std::map<BufferId, std::map<std::size_t, Affine>> own;  // subscripts by axis
  bool apart = true;
  walk(loop.body, [&](const Stmt& stmt) {
    if (stmt.kind == StmtKind::loop || stmt.kind == StmtKind::declare) return;
    if (stmt.kind != StmtKind::store || loads.contains(stmt.buffer)) {
      apart = false;
      return;
    }
    const auto [at, is_new] = own.try_emplace(stmt.buffer);
    for (std::size_t axis = 0; is_new && axis < stmt.subscripts.size(); ++axis) {
      if (moves(stmt.subscripts[axis])) at->second.emplace(axis, stmt.subscripts[axis]);
    }
    std::erase_if(at->second,
                  [&](const auto& each) { return stmt.subscripts[each.first] != each.second; });
    apart = apart && !at->second.empty();
  });
  return apart;
}

/// The nest as nests with one loop in each loop; the nest itself where that cannot be.
Block nests_of(Fresh& fresh, const StmtPtr& nest) {
  if (!is_serial_loop(nest) || !std::ranges::all_of(nest->body, is_serial_loop)) return {nest};
  Block inner;
  for (const StmtPtr& each : nest->body) {
    Block nests = nests_of(fresh, each);
    std::ranges::move(nests, std::back_inserter(inner));
  }
  if (inner.size() == 1) return {with_body(*nest, std::move(inner))};
  if (inner.empty() || !are_iterations_apart(*nest)) return {nest};
  Block result;
  for (const StmtPtr& each : inner) {
    Substitution by;
    const VarId var = fresh.var();
    by.vars[nest->var] = affine_var(var);
    result.push_back(make_loop(var, nest->from, nest->to, {substitute(each, by)}));
  }
  return result;
}

}  // namespace

Block with_transposes_apart(Scheduling& in, const Block& body) {
  const auto is_turned = [&](const StmtPtr& nest) { return is_transpose(in.lowered.loop, nest); };
  Block result;
  for (const StmtPtr& stmt : body) {
    Block nests = nests_of(in.fresh, stmt);
    if (nests.size() > 1 && std::ranges::any_of(nests, is_turned)) {
      std::ranges::move(nests, std::back_inserter(result));
    } else {
      result.push_back(stmt);
    }
  }
  return result;
}

}  // namespace heddle::jit
