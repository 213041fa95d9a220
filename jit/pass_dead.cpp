// Dead code: what no output depends on goes. Pure; any thread.
#include <algorithm>
#include <set>

#include "jit/passes.hpp"
#include "jit/rewrite.hpp"

namespace heddle::jit {
namespace {

/// Marks from the stores that somebody outside can see back through locals and scratch, then
/// sweeps.
class Sweeper {
 public:
  explicit Sweeper(const Loop& loop) : loop_(loop) {
    for (BufferId id = 0; id < loop.buffers.size(); ++id) {
      if (loop.buffers[id].role != Role::scratch) buffers_.insert(id);
    }
    for (std::size_t before = 0; before != marked();) {
      before = marked();
      walk(loop_.body, [this](const Stmt& stmt) {
        if (stmt.value && live(stmt)) mark(*stmt.value);
      });
    }
  }

  Block sweep(const Block& block) const {
    Block result;
    for (const StmtPtr& stmt : block) {
      if (stmt->kind == StmtKind::loop) {
        Block body = sweep(stmt->body);
        const bool empty = std::ranges::all_of(
            body, [](const StmtPtr& s) { return s->kind == StmtKind::comment; });
        if (empty) continue;
        result.push_back(body == stmt->body ? stmt : with_body(*stmt, std::move(body)));
      } else if (stmt->kind == StmtKind::comment || live(*stmt)) {
        result.push_back(stmt);
      }
    }
    return result;
  }

 private:
  std::size_t marked() const { return buffers_.size() + locals_.size(); }

  bool live(const Stmt& stmt) const {
    if (stmt.kind == StmtKind::store || stmt.kind == StmtKind::zero)
      return buffers_.contains(stmt.buffer);
    return locals_.contains(stmt.local);
  }

  void mark(const Value& value) {
    walk(value, [this](const Value& v) {
      if (v.kind == ValueKind::load) buffers_.insert(v.buffer);
      if (v.kind == ValueKind::local) locals_.insert(v.local);
    });
  }

  const Loop& loop_;
  std::set<BufferId> buffers_;  // whose contents matter
  std::set<LocalId> locals_;
};

}  // namespace

Lowered drop_dead(Lowered lowered) {
  Block body = Sweeper(lowered.loop).sweep(lowered.loop.body);
  lowered.loop.body = std::move(body);
  return lowered;
}

}  // namespace heddle::jit
