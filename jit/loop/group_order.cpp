// See loop/group_order.hpp.
#include "jit/loop/group_order.hpp"

#include <algorithm>
#include <cstdlib>
#include <utility>
#include <vector>

#include "jit/loop/address.hpp"
#include "jit/loop/rewrite.hpp"
#include "jit/value/int128.hpp"

namespace heddle::jit {
namespace {

bool meet(const std::set<LocalId>& written, const std::set<LocalId>& touched) {
  return std::ranges::any_of(written, [&](LocalId local) { return touched.contains(local); });
}

bool writes_into(const GroupTouch& one, const GroupTouch& other) {
  return (one.writes_buffers && (other.reads_buffers || other.writes_buffers)) ||
         meet(one.writes, other.reads) || meet(one.writes, other.writes);
}

class Copies {
 public:
  explicit Copies(const std::map<LocalId, ArrayType>& shared) : shared_(shared) {}

  std::set<LocalId> found(const Block& thread) {
    block(thread, true);
    if (stores_) return {};
    for (const LocalId local : others_) copied_.erase(local);
    return std::move(copied_);
  }

 private:
  /// `whole`: all statements of the body run.
  void block(const Block& body, bool whole) {
    for (const StmtPtr& stmt : body) {
      if (stmt->value) {
        walk(*stmt->value, [this](const Value& v) {
          if (v.kind == ValueKind::local) others_.insert(v.local);
        });
      }
      if (stmt->kind == StmtKind::store || stmt->kind == StmtKind::zero) stores_ = true;
      if (stmt->kind == StmtKind::assign) assign(*stmt, whole);
      if (stmt->kind == StmtKind::loop) loops_.push_back(stmt.get());
      block(stmt->body, whole && stmt->kind == StmtKind::loop);
      if (stmt->kind == StmtKind::loop) loops_.pop_back();
    }
  }

  void assign(const Stmt& stmt, bool whole) {
    const auto block = shared_.find(stmt.local);
    if (block == shared_.end()) return;
    const auto& [local, type] = *block;
    const std::size_t bytes = size_of(type.dtype);
    const bool copies = whole && stmt.value->kind == ValueKind::load &&
                        type.dtype != DType::bool_ && (bytes == 4 || bytes == 8) &&
                        are_apart(flatten(type, stmt.subscripts));
    if (!copies || !copied_.insert(local).second) others_.insert(local);
  }

  /// True if different iterations of the loops around access different elements: from the nearest
  /// elements on, each loop steps further than all loops before reach.
  [[nodiscard]] bool are_apart(const Affine& at) const {
    std::vector<std::pair<Int128, Int128>> steps;  // of a loop, and its last iteration
    for (const Stmt* const loop : loops_) {
      const auto term = std::ranges::find_if(at.terms, [loop](const AffineTerm& each) {
        return each.kind == AffineTerm::Kind::loop && each.id == loop->var;
      });
      const Int128 last = static_cast<Int128>(loop->to) - loop->from - 1;
      const Int128 step = term == at.terms.end() ? 0 : term->coefficient;
      if (last > 0) steps.emplace_back(step < 0 ? -step : step, last);
    }
    std::ranges::sort(steps);
    Int128 reach = 0;
    for (const auto& [step, last] : steps) {
      if (step <= reach) return false;
      reach += step * last;
    }
    return true;
  }

  const std::map<LocalId, ArrayType>& shared_;
  std::vector<const Stmt*> loops_;  // around the current statement
  std::set<LocalId> copied_, others_;
  bool stores_ = false;
};

}  // namespace

void GroupTouch::add(const GroupTouch& more) {
  reads_buffers = reads_buffers || more.reads_buffers;
  writes_buffers = writes_buffers || more.writes_buffers;
  reads.insert(more.reads.begin(), more.reads.end());
  writes.insert(more.writes.begin(), more.writes.end());
}

GroupTouch touched_by(const Block& body, const std::set<LocalId>& shared) {
  GroupTouch made;
  walk(body, [&](const Stmt& stmt) {
    if (stmt.kind == StmtKind::store || stmt.kind == StmtKind::zero) made.writes_buffers = true;
    if (stmt.kind == StmtKind::assign && shared.contains(stmt.local))
      made.writes.insert(stmt.local);
  });
  walk_values(body, [&](const Value& v) {
    if (v.kind == ValueKind::load) made.reads_buffers = true;
    if (v.kind == ValueKind::local && shared.contains(v.local)) made.reads.insert(v.local);
  });
  return made;
}

bool meet_in_memory(const GroupTouch& one, const GroupTouch& other) {
  return writes_into(one, other) || writes_into(other, one);
}

std::set<LocalId> copied_blocks(const Block& thread, const std::map<LocalId, ArrayType>& shared) {
  return Copies(shared).found(thread);
}

}  // namespace heddle::jit
