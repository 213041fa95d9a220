// See loop/group_body.hpp.
#include "jit/loop/group_body.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "jit/loop/group_order.hpp"
#include "jit/loop/rewrite.hpp"

namespace heddle::jit {
namespace {

/// Finds the number of leading axes of each block of the group that belong to the threads; 0: the
/// threads share the block.
class Axes {
 public:
  explicit Axes(const Block& body) { group(body); }

  std::map<LocalId, std::size_t> of_threads;
  std::size_t nests = 0;
  bool repeats = false;

 private:
  void group(const Block& body) {
    for (const StmtPtr& stmt : body) {
      if (stmt->kind == StmtKind::declare && !stmt->dims.empty()) dims_[stmt->local] = stmt->dims;
      if (stmt->kind != StmtKind::loop) continue;
      if (!is_block_loop(*stmt)) {
        const std::size_t before = nests;
        group(stmt->body);
        repeats = repeats || nests > before;
        continue;
      }
      ++nests;
      const std::vector<const Stmt*> threads = threads_of(*stmt);
      const auto look = [&](LocalId local, const std::vector<Affine>& at) {
        if (const auto dims = dims_.find(local); dims != dims_.end() && !at.empty())
          access(local, dims->second, at, threads);
      };
      walk(threads.back()->body, [&](const Stmt& inner) {
        if (inner.kind == StmtKind::assign) look(inner.local, inner.subscripts);
        if (inner.value) {
          walk(*inner.value, [&](const Value& v) {
            if (v.kind == ValueKind::local) look(v.local, v.subscripts);
          });
        }
      });
    }
  }

  void access(LocalId local, const Dims& dims, const std::vector<Affine>& at,
              const std::vector<const Stmt*>& threads) {
    bool own = threads.size() <= at.size();
    for (std::size_t k = 0; own && k < threads.size(); ++k) {
      const Affine of_thread{0, {{AffineTerm::Kind::loop, threads[k]->var, 1}}};
      own = at[k] == of_thread && threads[k]->from == 0 && threads[k]->to == dims[k];
    }
    const std::size_t axes = own ? threads.size() : 0;
    const auto [known, first] = of_threads.emplace(local, axes);
    if (!first && known->second != axes) known->second = 0;
  }

  std::map<LocalId, Dims> dims_;
};

/// Removes the thread axes of blocks that belong to single threads.
class Narrowing {
 public:
  explicit Narrowing(const std::map<LocalId, std::size_t>& axes) : axes_(axes) {}

  Block block(const Block& body) const {
    Block result;
    for (const StmtPtr& stmt : body) result.push_back(statement(*stmt));
    return result;
  }

 private:
  StmtPtr statement(const Stmt& stmt) const {
    Stmt narrowed = stmt;
    if (const std::size_t axes = axes_of(stmt.local); axes > 0) {
      if (stmt.kind == StmtKind::declare) drop(narrowed.dims, axes);
      if (stmt.kind == StmtKind::assign) drop(narrowed.subscripts, axes);
    }
    if (stmt.value) {
      narrowed.value = rebuild(stmt.value, [this](ValuePtr v) {
        const std::size_t axes = v->kind == ValueKind::local ? axes_of(v->local) : 0;
        if (axes == 0) return v;
        Value element = *v;
        drop(element.subscripts, axes);
        return ValuePtr(std::make_shared<const Value>(std::move(element)));
      });
    }
    narrowed.body = block(stmt.body);
    return std::make_shared<const Stmt>(std::move(narrowed));
  }

  [[nodiscard]] std::size_t axes_of(LocalId local) const {
    const auto found = axes_.find(local);
    return found == axes_.end() ? 0 : found->second;
  }
  template <class Axis>
  static void drop(std::vector<Axis>& from, std::size_t axes) {
    from.erase(from.begin(), from.begin() + static_cast<std::ptrdiff_t>(axes));
  }

  const std::map<LocalId, std::size_t>& axes_;
};

/// Adds the copies of the block loops in the body; `shared` gets the types of shared blocks.
void find_copies(const Block& body, std::map<LocalId, ArrayType>& shared, GroupBody& made) {
  for (const StmtPtr& stmt : body) {
    if (stmt->kind == StmtKind::declare && made.shared.contains(stmt->local))
      shared[stmt->local] = {stmt->value->dtype, stmt->dims};
    if (!is_block_loop(*stmt)) {
      find_copies(stmt->body, shared, made);
      continue;
    }
    auto copied = copied_blocks(threads_of(*stmt).back()->body, shared);
    if (!copied.empty()) made.copies[stmt->var] = std::move(copied);
  }
}

}  // namespace

std::vector<const Stmt*> threads_of(const Stmt& loop) {
  std::vector<const Stmt*> loops{&loop};
  for (bool found = true; found;) {
    found = false;
    for (const StmtPtr& stmt : loops.back()->body) {
      if (!is_block_loop(*stmt)) continue;
      loops.push_back(stmt.get());
      found = true;
      break;
    }
  }
  return loops;
}

GroupBody group_body(const Block& body) {
  GroupBody made;
  const Axes axes(body);
  made.has_threads = axes.nests > 0;
  for (const auto& [local, of_threads] : axes.of_threads) {
    if (of_threads == 0) made.shared.insert(local);
  }
  // All threads fill shared blocks before any thread reads them.
  made.meets = axes.nests > 1 || axes.repeats || !made.shared.empty();
  made.statements = Narrowing(axes.of_threads).block(body);
  std::map<LocalId, ArrayType> shared;
  find_copies(made.statements, shared, made);
  return made;
}

GroupNeeds group_needs(const StmtPtr& nest) {
  if (nest->kind != StmtKind::loop || nest->mark != LoopMark::parallel) return {};
  const GroupBody group = group_body(nest->body);
  GroupNeeds needs{0, group.meets};
  walk(nest->body, [&](const Stmt& stmt) {
    if (stmt.kind == StmtKind::declare && group.shared.contains(stmt.local))
      needs.shared_bytes += block_bytes(stmt);
  });
  return needs;
}

}  // namespace heddle::jit
