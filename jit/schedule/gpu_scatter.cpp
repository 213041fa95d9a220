// See gpu_scatter.hpp.
#include "jit/schedule/gpu_scatter.hpp"

#include <optional>
#include <set>
#include <utility>

#include "jit/loop/accumulation.hpp"
#include "jit/loop/rewrite.hpp"

namespace heddle::jit {
namespace {

/// The accumulation that the GPU can make atomically: of f64 from compute capability 6.0 on.
std::optional<Accumulation> accumulation_on(const Stmt& stmt, const Target& target) {
  std::optional<Accumulation> made = accumulation_of(stmt);
  if (made && made->term->dtype == DType::f64 && target.sm < 60) made.reset();
  return made;
}

/// The buffers that the nest accesses by accumulations alone.
std::set<BufferId> accumulated(const StmtPtr& nest, const Target& target) {
  std::set<BufferId> alone, otherwise;
  walk(Block{nest}, [&](const Stmt& stmt) {
    const std::optional<Accumulation> made = accumulation_on(stmt, target);
    if (made) {
      alone.insert(stmt.buffer);
    } else if (stmt.kind == StmtKind::store || stmt.kind == StmtKind::zero) {
      otherwise.insert(stmt.buffer);
    }
    if (!stmt.value) return;
    walk(made ? *made->term : *stmt.value, [&](const Value& v) {
      if (v.kind == ValueKind::load) otherwise.insert(v.buffer);
    });
  });
  for (const BufferId buffer : otherwise) alone.erase(buffer);
  return alone;
}

StmtPtr with_atomic_stores(const StmtPtr& stmt, const std::set<BufferId>& to) {
  if (stmt->kind == StmtKind::store && to.contains(stmt->buffer))
    return make_atomic_store(stmt->buffer, stmt->subscripts, stmt->value);
  if (!binds_variable(*stmt)) return stmt;
  Block body;
  for (const StmtPtr& inner : stmt->body) body.push_back(with_atomic_stores(inner, to));
  return with_body(*stmt, std::move(body));
}

/// True if the position stays the same while the statement runs.
bool stays_the_same(const Value& position, const StmtPtr& stmt) {
  std::set<BufferId> written;
  walk(Block{stmt}, [&](const Stmt& inner) {
    if (inner.kind == StmtKind::store || inner.kind == StmtKind::zero) written.insert(inner.buffer);
  });
  bool same = true;
  walk(position, [&](const Value& v) {
    same = same && !(v.kind == ValueKind::load && written.contains(v.buffer));
  });
  return same;
}

/// Puts each position whose body is one loop into that loop.
StmtPtr with_positions_inside(const StmtPtr& stmt) {
  if (!binds_variable(*stmt) || stmt->body.size() != 1) return stmt;
  const StmtPtr inner = with_positions_inside(stmt->body[0]);
  if (stmt->kind == StmtKind::at && inner->kind == StmtKind::loop &&
      inner->mark == LoopMark::serial && stays_the_same(*stmt->value, inner))
    return with_body(*inner, {with_positions_inside(with_body(*stmt, inner->body))});
  return with_body(*stmt, {inner});
}

}  // namespace

StmtPtr with_atomic_accumulations(const StmtPtr& nest, const Target& target) {
  const std::set<BufferId> to = accumulated(nest, target);
  if (to.empty()) return nullptr;
  return with_positions_inside(with_atomic_stores(nest, to));
}

}  // namespace heddle::jit
