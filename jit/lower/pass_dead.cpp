// Dead code elimination: removes statements on which no output depends. Pure; any thread.
#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>
#include <vector>

#include "jit/loop/rewrite.hpp"
#include "jit/lower/passes.hpp"

namespace heddle::jit {
namespace {

/// Marks from the stores that are visible outside, back through locals and scratch, then sweeps.
/// Each statement is visited once, when its result turns out to matter.
class Sweeper {
 public:
  explicit Sweeper(const Loop& loop) : setters_(loop.buffers.size()) {
    find_setters(loop.body, nullptr);
    for (BufferId id = 0; id < loop.buffers.size(); ++id) {
      if (loop.buffers[id].role != Role::scratch) mark_buffer(id);
    }
    while (!pending_.empty()) {
      const Stmt& stmt = *pending_.back();
      pending_.pop_back();
      if (stmt.value) mark_value(*stmt.value);
      // The statement's execution, and its subscripts, depend on the surrounding positions.
      for (const Stmt* at = positions_[&stmt]; at != nullptr; at = positions_[at]) {
        if (!live_positions_.insert(at).second) break;
        mark_value(*at->value);
      }
    }
  }

  Block sweep(const Block& block) const {
    Block result;
    for (const StmtPtr& stmt : block) {
      if (binds_variable(*stmt)) {
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
  using Setters = std::vector<const Stmt*>;

  /// `position`: the innermost surrounding position.
  void find_setters(const Block& body, const Stmt* position) {
    for (const StmtPtr& stmt : body) {
      count_step();
      if (position != nullptr) positions_[stmt.get()] = position;
      if (stmt->kind == StmtKind::store || stmt->kind == StmtKind::zero)
        setters_[stmt->buffer].push_back(stmt.get());
      if (stmt->kind == StmtKind::declare || stmt->kind == StmtKind::assign)
        local_setters_[stmt->local].push_back(stmt.get());
      find_setters(stmt->body, stmt->kind == StmtKind::at ? stmt.get() : position);
    }
  }

  void mark_value(const Value& value) {
    walk(value, [this](const Value& v) {
      if (v.kind == ValueKind::load) mark_buffer(v.buffer);
      if (v.kind == ValueKind::local) mark_local(v.local);
    });
  }
  void mark_buffer(BufferId id) {
    if (buffers_.insert(id).second) add(setters_[id]);
  }
  void mark_local(LocalId id) {
    if (locals_.insert(id).second) add(local_setters_[id]);
  }
  void add(const Setters& setters) {
    pending_.insert(pending_.end(), setters.begin(), setters.end());
  }

  bool live(const Stmt& stmt) const {
    if (stmt.kind == StmtKind::store || stmt.kind == StmtKind::zero)
      return buffers_.contains(stmt.buffer);
    return locals_.contains(stmt.local);
  }

  std::vector<Setters> setters_;  // by buffer
  std::map<LocalId, Setters> local_setters_;
  // innermost surrounding position of each statement
  std::unordered_map<const Stmt*, const Stmt*> positions_;
  std::set<const Stmt*> live_positions_;
  Setters pending_;             // live statements whose values are not yet visited
  std::set<BufferId> buffers_;  // buffers whose contents matter
  std::set<LocalId> locals_;
};

}  // namespace

Lowered drop_dead(Lowered lowered) {
  Block body = Sweeper(lowered.loop).sweep(lowered.loop.body);
  lowered.loop.body = std::move(body);
  return lowered;
}

}  // namespace heddle::jit
