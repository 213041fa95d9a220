// Rebuilding loop trees: substitution of variables and values. Unchanged parts are shared. Pure;
// any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>

#include "jit/loop/loop.hpp"
#include "jit/system/limits.hpp"

namespace heddle::jit {

/// Calls `visit` with each value of the tree, operands first.
template <class Visit>
void walk(const Value& value, const Visit& visit) {
  count_step();
  for (const ValuePtr& arg : value.args) walk(*arg, visit);
  visit(value);
}

/// Calls `visit` with each statement, outer before inner, in order.
template <class Visit>
void walk(const Block& block, const Visit& visit) {
  for (const StmtPtr& stmt : block) {
    count_step();
    visit(*stmt);
    walk(stmt->body, visit);
  }
}

/// Calls `visit` with each value of each statement, in order of execution.
template <class Visit>
void walk_values(const Block& block, const Visit& visit) {
  walk(block, [&](const Stmt& stmt) {
    if (stmt.value) walk(*stmt.value, visit);
  });
}

/// Replaces values bottom-up: `change` gets each node after its operands were rebuilt.
[[nodiscard]] ValuePtr rebuild(const ValuePtr& value,
                               const std::function<ValuePtr(ValuePtr)>& change);
/// Replaces the largest parts of the value for which `by` has a value.
[[nodiscard]] ValuePtr replaced_parts(const ValuePtr& value,
                                      const std::function<ValuePtr(const ValuePtr&)>& by);

/// The replacements for names in a tree. Names without an entry stay.
struct Substitution {
  std::map<VarId, Affine> vars;  ///< loop variables by affine indices
  std::map<LocalId, LocalId> locals;
  std::map<VarId, VarId> loops;  ///< variables that statements bind (also renamed where used)
  std::map<BufferId, BufferId> buffers;
  std::map<StaticId, StaticId> statics;
};
[[nodiscard]] Affine substitute(const Affine& index, const Substitution& by);
[[nodiscard]] ValuePtr substitute(const ValuePtr& value, const Substitution& by);
[[nodiscard]] StmtPtr substitute(const StmtPtr& stmt, const Substitution& by);

/// The statement with another value (store, declare, assign, at) or another body (loop, at).
[[nodiscard]] StmtPtr with_value(const Stmt& stmt, ValuePtr value);
[[nodiscard]] StmtPtr with_body(const Stmt& stmt, Block body);

/// The statement with other subscripts of stores and loads: `change` makes them of those that an
/// access to a buffer has.
[[nodiscard]] StmtPtr with_subscripts(
    const StmtPtr& stmt,
    const std::function<std::vector<Affine>(BufferId, std::vector<Affine>)>& change);

/// Bytes of the local block that the statement declares; 0: it declares none.
[[nodiscard]] std::int64_t block_bytes(const Stmt& stmt);
/// Bytes of all local blocks of the body.
[[nodiscard]] std::int64_t block_bytes(const Block& body);

/// Number of nodes on the longest path of the tree.
[[nodiscard]] int depth(const Value& value);

}  // namespace heddle::jit
