// See loop/kernel_uses.hpp.
#include "jit/loop/kernel_uses.hpp"

#include "jit/loop/rewrite.hpp"

namespace heddle::jit {

KernelUses::KernelUses(const Loop& loop)
    : loop_(loop),
      sizes_(loop.body.size()),
      writers_(loop.buffers.size()),
      readers_(loop.buffers.size()) {
  slots_.reserve(loop.body.size());
  for (const StmtPtr& stmt : loop.body) {
    slots_.push_back({stmt});
    add({static_cast<std::uint32_t>(slots_.size() - 1), 0});
  }
}

void KernelUses::add(Position at) {
  const Block alone{(*this)[at]};
  walk(alone, [&](const Stmt& stmt) {
    ++statements_;
    ++sizes_[at.slot];
    if (stmt.kind == StmtKind::store || stmt.kind == StmtKind::zero)
      writers_[stmt.buffer].insert(at);
    if (stmt.kind == StmtKind::assign) assigners_[stmt.local].insert(at);
    if (binds_variable(stmt)) bounds_[stmt.var] = {stmt.from, stmt.to};
  });
  walk_values(alone, [&](const Value& v) {
    if (v.kind == ValueKind::load && !writers_[v.buffer].contains(at)) ++readers_[v.buffer][at];
  });
}

void KernelUses::remove(Position at) {
  const Block alone{(*this)[at]};
  walk(alone, [&](const Stmt& stmt) {
    --statements_;
    --sizes_[at.slot];
    if (stmt.kind == StmtKind::store || stmt.kind == StmtKind::zero)
      writers_[stmt.buffer].erase(at);
    if (stmt.kind == StmtKind::assign) assigners_[stmt.local].erase(at);
  });
  walk_values(alone, [&](const Value& v) {
    if (v.kind == ValueKind::load) readers_[v.buffer].erase(at);
  });
}

bool KernelUses::assigns(LocalId local, Position first, Position last) const {
  const auto known = assigners_.find(local);
  if (known == assigners_.end()) return false;
  const auto at = known->second.lower_bound(first);
  return at != known->second.end() && *at <= last;
}

void KernelUses::replace(std::uint32_t slot, Block by) {
  for (std::uint32_t k = 0; k < slots_[slot].size(); ++k) remove({slot, k});
  slots_[slot] = std::move(by);
  for (std::uint32_t k = 0; k < slots_[slot].size(); ++k) add({slot, k});
}

Block KernelUses::body() const {
  Block body;
  for (const Block& slot : slots_) body.insert(body.end(), slot.begin(), slot.end());
  return body;
}

}  // namespace heddle::jit
