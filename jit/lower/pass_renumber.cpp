// Renumbering: numbers everything by first appearance in the kernel, so that the text depends
// neither on previous builds nor on the order of construction. Pure; any thread.
#include <unordered_set>

#include "jit/loop/rewrite.hpp"
#include "jit/lower/passes.hpp"

namespace heddle::jit {
namespace {

template <class Id>
void meet(std::map<Id, Id>& names, Id id) {
  names.try_emplace(id, static_cast<Id>(names.size()));
}

class Numbering {
 public:
  explicit Numbering(const Lowered& lowered) : lowered_(lowered) {
    for (const auto& [tensor, placement] : lowered.placements) {
      if (placement.mode == MemoryMode::virtual_) virtual_.insert(tensor.id());
    }
    for (const StmtPtr& stmt : lowered.loop.body) statement(*stmt);
    // Everything that the program mentions stays part of the interface, used or not: an empty
    // tensor is a tensor.
    for (BufferId id = 0; id < lowered.tensors.size(); ++id) {
      if (!vanished(id)) meet(by.buffers, id);
    }
    for (StaticId id = 0; id < lowered.statics.size(); ++id) meet(by.statics, id);
  }

  Substitution by;

 private:
  bool vanished(BufferId id) const {
    if (lowered_.loop.buffers[id].role == Role::merge) return false;
    if (lowered_.loop.buffers[id].role == Role::scratch)
      return true;  // unused, or else numbered in the body
    return virtual_.contains(lowered_.tensors[id].id());
  }

  void affines(const std::vector<Affine>& indices) {
    for (const Affine& index : indices) {
      for (const AffineTerm& term : index.terms) {
        if (term.kind == AffineTerm::Kind::static_index) meet(by.statics, term.id);
      }
    }
  }

  void statement(const Stmt& stmt) {
    if (binds_variable(stmt)) meet(by.loops, stmt.var);
    if (stmt.kind == StmtKind::declare) meet(by.locals, stmt.local);
    if (stmt.kind == StmtKind::store || stmt.kind == StmtKind::zero) meet(by.buffers, stmt.buffer);
    affines(stmt.subscripts);
    if (stmt.value) value(*stmt.value);
    for (const StmtPtr& inner : stmt.body) statement(*inner);
  }

  /// In the order of the text: a load before its statics, operands left to right.
  void value(const Value& v) {
    if (v.kind == ValueKind::load) meet(by.buffers, v.buffer);
    affines(v.subscripts);
    affines({v.index});
    for (const ValuePtr& arg : v.args) value(*arg);
  }

  const Lowered& lowered_;
  std::unordered_set<std::uint64_t> virtual_;  // by Tensor::id()
};

}  // namespace

Lowered renumber(Lowered lowered) {
  const Substitution by = Numbering(lowered).by;
  Lowered result;
  result.name = std::move(lowered.name);
  result.placements = std::move(lowered.placements);
  result.loop.buffers.resize(by.buffers.size());
  std::vector<std::optional<Tensor>> tensors(by.buffers.size());
  for (const auto& [from, to] : by.buffers) {
    result.loop.buffers[to] = lowered.loop.buffers[from];
    tensors[to] = lowered.tensors[from];
  }
  for (const auto& tensor : tensors) result.tensors.push_back(*tensor);
  std::vector<std::optional<StaticIndex>> statics(by.statics.size());
  result.loop.statics.resize(by.statics.size());
  for (const auto& [from, to] : by.statics) {
    result.loop.statics[to] = lowered.loop.statics[from];
    statics[to] = lowered.statics[from];
  }
  for (const auto& index : statics) result.statics.push_back(*index);
  for (const StmtPtr& stmt : lowered.loop.body) result.loop.body.push_back(substitute(stmt, by));
  for (BufferDecl& decl : result.loop.buffers) {
    if (decl.role != Role::merge && decl.role != Role::scratch) decl.role = Role::inout;
  }
  result.interface = read_interface(result.loop);
  for (std::size_t k = 0; k < result.loop.buffers.size(); ++k)
    result.loop.buffers[k].role = result.interface.buffers[k].role;
  return result;
}

}  // namespace heddle::jit
