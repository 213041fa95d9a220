// Virtual tensors: finding a definition that can be recomputed, and putting it where the tensor was
// read.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "heddle/status.hpp"
#include "jit/passes.hpp"
#include "jit/rewrite.hpp"

namespace heddle::jit {
namespace {

bool writes(const Stmt& top, BufferId buffer) {
  bool found = false;
  walk(Block{std::make_shared<const Stmt>(top)}, [&](const Stmt& stmt) {
    found = found || ((stmt.kind == StmtKind::store || stmt.kind == StmtKind::zero) &&
                      stmt.buffer == buffer);
  });
  return found;
}

bool reads(const Stmt& top, BufferId buffer) {
  bool found = false;
  walk_values(Block{std::make_shared<const Stmt>(top)}, [&](const Value& v) {
    found = found || (v.kind == ValueKind::load && v.buffer == buffer);
  });
  return found;
}

/// The causes for which a tensor cannot be virtual (reference 3F).
std::string no_setter() { return "1: the program never assigns it"; }
std::string many_setters(std::size_t n) { return fmt::format("2: {} statements assign it", n); }
std::string reads_itself() { return "3: its definition reads it"; }
std::string not_a_nest() {
  return "4: its definition is not a nest of loops around one assignment";
}
std::string writes_others() { return "5: the loops of its definition assign other tensors too"; }
std::string odd_subscripts() {
  return "6: its definition does not assign each element once, by plain distinct indices over the "
         "whole extents";
}
std::string source_changes() {
  return "7: a tensor that its definition reads is assigned before its last use";
}
std::string read_before() { return "8: it is read before it is assigned"; }

/// The loop variable per axis, when the store covers the buffer by plain, distinct subscripts.
std::optional<std::vector<std::optional<VarId>>> axes_of(
    const Stmt& store, const Dims& dims, const std::map<VarId, std::int64_t>& extents) {
  std::vector<std::optional<VarId>> axes;
  std::set<VarId> used;
  for (std::size_t axis = 0; axis < dims.size(); ++axis) {
    const Affine& a = store.subscripts[axis];
    if (dims[axis] == 1 && a.terms.empty()) {
      axes.emplace_back();
      continue;
    }
    const bool plain = a.constant == 0 && a.terms.size() == 1 && a.terms[0].coefficient == 1 &&
                       a.terms[0].kind == AffineTerm::Kind::loop;
    if (!plain || !used.insert(a.terms[0].id).second) return std::nullopt;
    const auto at = extents.find(a.terms[0].id);
    if (at == extents.end() || at->second != dims[axis]) return std::nullopt;
    axes.emplace_back(a.terms[0].id);
  }
  if (used.size() != extents.size()) return std::nullopt;
  return axes;
}

}  // namespace

Inlinable find_definition(const Loop& loop, BufferId buffer) {
  std::vector<std::size_t> setters;
  std::size_t first_read = loop.body.size();
  std::size_t last_read = 0;
  for (std::size_t k = 0; k < loop.body.size(); ++k) {
    if (writes(*loop.body[k], buffer)) setters.push_back(k);
    if (reads(*loop.body[k], buffer)) {
      first_read = std::min(first_read, k);
      last_read = k;
    }
  }
  if (setters.empty()) return {{}, no_setter()};
  if (setters.size() > 1) return {{}, many_setters(setters.size())};
  Definition definition;
  definition.position = setters[0];
  if (first_read == definition.position) return {{}, reads_itself()};
  if (first_read < definition.position) return {{}, read_before()};

  std::map<VarId, std::int64_t> extents;
  const Stmt* at = loop.body[definition.position].get();
  if (at->kind == StmtKind::zero) {  // every element is the constant 0
    const BufferDecl& decl = loop.buffers[buffer];
    const ValuePtr zero = make_constant(convert(Scalar{}, decl.type.dtype));
    definition.axes.resize(decl.type.dims.size());
    definition.body = {make_store(buffer, std::vector<Affine>(decl.type.dims.size()), zero)};
    return {std::move(definition), {}};
  }
  definition.body = {loop.body[definition.position]};
  while (definition.body.size() == 1 && definition.body[0]->kind == StmtKind::loop) {
    at = definition.body[0].get();
    if (at->from != 0) return {{}, odd_subscripts()};
    extents[at->var] = at->to;
    Block inner = at->body;
    definition.body = std::move(inner);
  }
  if (definition.body.empty() || definition.body.back()->kind != StmtKind::store)
    return {{}, not_a_nest()};
  std::size_t stores = 0;
  walk(definition.body, [&](const Stmt& stmt) {
    if (stmt.kind == StmtKind::store || stmt.kind == StmtKind::zero) ++stores;
  });
  if (stores != 1) return {{}, writes_others()};
  auto axes = axes_of(*definition.body.back(), loop.buffers[buffer].type.dims, extents);
  if (!axes) return {{}, odd_subscripts()};
  definition.axes = std::move(*axes);

  bool changes = false;
  walk_values(definition.body, [&](const Value& v) {
    if (v.kind != ValueKind::load) return;
    for (std::size_t k = definition.position + 1; k <= last_read; ++k) {
      changes = changes || writes(*loop.body[k], v.buffer);
    }
  });
  if (changes) return {{}, source_changes()};
  return {std::move(definition), {}};
}

namespace {

class Inliner {
 public:
  explicit Inliner(Lowered lowered) : lowered_(std::move(lowered)) {
    walk(lowered_.loop.body, [this](const Stmt& stmt) {
      if (stmt.kind == StmtKind::loop) next_var_ = std::max(next_var_, stmt.var + 1);
      if (stmt.kind == StmtKind::declare) next_local_ = std::max(next_local_, stmt.local + 1);
    });
  }

  Lowered run() {
    for (const auto& [tensor, placement] : lowered_.placements) {
      if (placement.mode != MemoryMode::virtual_) continue;
      const auto at = std::ranges::find(lowered_.tensors, tensor);
      inline_buffer(static_cast<BufferId>(at - lowered_.tensors.begin()));
    }
    return std::move(lowered_);
  }

 private:
  void inline_buffer(BufferId buffer) {
    Inlinable found = find_definition(lowered_.loop, buffer);
    if (!found.definition) {
      throw Error(ErrorCode::internal, "virtual tensor lost its definition: " + found.refusal);
    }
    definition_ = &*found.definition;
    buffer_ = buffer;
    Block body = lowered_.loop.body;
    body.erase(body.begin() + static_cast<std::ptrdiff_t>(definition_->position));
    lowered_.loop.body = block(body);
  }

  Block block(const Block& body) {
    Block result;
    for (const StmtPtr& stmt : body) {
      if (stmt->kind == StmtKind::loop) {
        result.push_back(with_body(*stmt, block(stmt->body)));
      } else if (stmt->value) {
        std::vector<std::pair<ValuePtr, ValuePtr>> done;  // loads replaced in this statement
        ValuePtr value =
            rebuild(stmt->value, [&](ValuePtr v) { return replace(std::move(v), result, done); });
        result.push_back(value == stmt->value ? stmt : with_value(*stmt, std::move(value)));
      } else {
        result.push_back(stmt);
      }
    }
    return result;
  }

  /// A read of the virtual tensor becomes a local computed just before the statement.
  ValuePtr replace(ValuePtr v, Block& before, std::vector<std::pair<ValuePtr, ValuePtr>>& done) {
    if (v->kind != ValueKind::load || v->buffer != buffer_) return v;
    for (const auto& [load, local] : done) {
      if (equal(*load, *v)) return local;
    }
    Substitution by;
    for (std::size_t axis = 0; axis < definition_->axes.size(); ++axis) {
      if (definition_->axes[axis]) by.vars[*definition_->axes[axis]] = v->subscripts[axis];
    }
    walk(definition_->body, [&](const Stmt& stmt) {
      if (stmt.kind == StmtKind::loop) by.loops[stmt.var] = next_var_++;
      if (stmt.kind == StmtKind::declare) by.locals[stmt.local] = next_local_++;
    });
    for (std::size_t k = 0; k + 1 < definition_->body.size(); ++k) {
      before.push_back(substitute(definition_->body[k], by));
    }
    const LocalId local = next_local_++;
    before.push_back(make_declare(local, substitute(definition_->body.back()->value, by)));
    ValuePtr result = make_local(local, v->dtype);
    done.emplace_back(std::move(v), result);
    return result;
  }

  Lowered lowered_;
  const Definition* definition_ = nullptr;
  BufferId buffer_ = 0;
  VarId next_var_ = 0;
  LocalId next_local_ = 0;
};

}  // namespace

Lowered inline_virtual(Lowered lowered) { return Inliner(std::move(lowered)).run(); }

}  // namespace heddle::jit
