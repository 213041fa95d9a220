// See cut.hpp.
#include "jit/schedule/cut.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <span>
#include <unordered_set>

#include "jit/loop/rewrite.hpp"
#include "jit/system/limits.hpp"

namespace heddle::jit {
namespace {

class Nodes {
 public:
  std::size_t of(const Block& block) {
    std::size_t sum = 0;
    for (const StmtPtr& stmt : block) sum += of(*stmt);
    return sum;
  }
  std::size_t of(const Stmt& stmt) {
    count_step();
    std::size_t sum = 1;
    if (stmt.value) {
      met_.clear();
      sum += of(*stmt.value);
    }
    const std::size_t inner = of(stmt.body);
    const bool unrolled = stmt.kind == StmtKind::loop && stmt.mark == LoopMark::unroll;
    const auto times = unrolled && stmt.to > stmt.from
                           ? static_cast<std::size_t>(stmt.to - stmt.from)
                           : std::size_t{1};
    return sum + times * inner;
  }

 private:
  /// A value that is used twice is computed once.
  std::size_t of(const Value& value) {
    if (!met_.insert(&value).second) return 0;
    std::size_t sum = 1;
    for (const ValuePtr& arg : value.args) sum += of(*arg);
    return sum;
  }

  std::unordered_set<const Value*> met_;
};

template <class Id>
void meet(std::map<Id, Id>& names, Id id) {
  names.try_emplace(id, static_cast<Id>(names.size()));
}

/// What some statements use, numbered by first appearance; statics as in the program.
class Uses {
 public:
  explicit Uses(std::span<const StmtPtr> stmts) {
    for (const StmtPtr& stmt : stmts) statement(*stmt);
    for (const StaticId id : statics_) meet(by.statics, id);
  }

  Substitution by;
  std::set<BufferId> written;

 private:
  void affines(const std::vector<Affine>& indices) {
    for (const Affine& index : indices) affine(index);
  }
  void affine(const Affine& index) {
    for (const AffineTerm& term : index.terms) {
      if (term.kind == AffineTerm::Kind::static_index) statics_.insert(term.id);
    }
  }

  void statement(const Stmt& stmt) {
    count_step();
    if (stmt.kind == StmtKind::loop) meet(by.loops, stmt.var);
    if (stmt.kind == StmtKind::declare) meet(by.locals, stmt.local);
    const bool writes = stmt.kind == StmtKind::store || stmt.kind == StmtKind::zero;
    if (writes || stmt.kind == StmtKind::prefetch) meet(by.buffers, stmt.buffer);
    if (writes) written.insert(stmt.buffer);
    affines(stmt.subscripts);
    if (stmt.value) value(stmt.value);
    for (const StmtPtr& inner : stmt.body) statement(*inner);
  }

  void value(const ValuePtr& v) {
    if (!met_.insert(v.get()).second) return;
    if (v->kind == ValueKind::load) meet(by.buffers, v->buffer);
    affines(v->subscripts);
    affine(v->index);
    for (const ValuePtr& arg : v->args) value(arg);
  }

  std::set<StaticId> statics_;
  std::unordered_set<const Value*> met_;
};

KernelPart part_of(const Loop& loop, std::span<const StmtPtr> stmts) {
  const Uses uses(stmts);
  KernelPart part;
  part.entries.resize(uses.by.buffers.size());
  part.loop.buffers.resize(uses.by.buffers.size());
  for (const auto& [from, to] : uses.by.buffers) {
    part.entries[to] = from;
    part.loop.buffers[to] = loop.buffers[from];
    // What is scratch for the program may hold here what an earlier kernel computed.
    Role& role = part.loop.buffers[to].role;
    if (role != Role::merge) role = uses.written.contains(from) ? Role::inout : Role::input;
  }
  for (const auto& [from, to] : uses.by.statics) {
    part.statics.push_back(from);
    part.loop.statics.push_back(loop.statics[from]);
  }
  for (const StmtPtr& stmt : stmts) part.loop.body.push_back(substitute(stmt, uses.by));
  return part;
}

/// The locals that a statement uses or declares.
std::set<LocalId> locals_of(const Stmt& stmt) {
  std::set<LocalId> locals;
  std::unordered_set<const Value*> met;
  const auto value = [&](const auto& self, const Value& v) -> void {
    if (!met.insert(&v).second) return;
    if (v.kind == ValueKind::local) locals.insert(v.local);
    for (const ValuePtr& arg : v.args) self(self, *arg);
  };
  const auto statement = [&](const auto& self, const Stmt& s) -> void {
    count_step();
    if (s.kind == StmtKind::declare || s.kind == StmtKind::assign) locals.insert(s.local);
    if (s.value) value(value, *s.value);
    for (const StmtPtr& inner : s.body) self(self, *inner);
  };
  statement(statement, stmt);
  return locals;
}

/// Nothing but hints, for the statement that follows.
bool only_fetches(const Stmt& stmt) {
  count_step();
  if (stmt.kind == StmtKind::prefetch) return true;
  return !stmt.body.empty() &&
         std::ranges::all_of(stmt.body, [](const StmtPtr& inner) { return only_fetches(*inner); });
}

/// For each statement of the top level, the last one that it has to stay together with: that uses a
/// local declared there, or that it fetches for; its own place where there is none.
std::vector<std::size_t> last_needed(const Block& body) {
  std::map<LocalId, std::size_t> declared, used;
  for (std::size_t k = 0; k < body.size(); ++k) {
    if (body[k]->kind == StmtKind::declare) declared.emplace(body[k]->local, k);
    if (declared.empty()) continue;
    for (const LocalId local : locals_of(*body[k])) used[local] = k;
  }
  std::vector<std::size_t> last(body.size());
  std::iota(last.begin(), last.end(), 0);
  for (const auto& [local, at] : declared) last[at] = std::max(last[at], used[local]);
  for (std::size_t k = 0; k + 1 < body.size(); ++k) {
    if (only_fetches(*body[k])) last[k] = std::max(last[k], k + 1);
  }
  return last;
}

KernelPart whole(const Loop& loop) {
  KernelPart part{loop, std::vector<std::uint32_t>(loop.buffers.size()),
                  std::vector<std::uint32_t>(loop.statics.size())};
  std::iota(part.entries.begin(), part.entries.end(), 0);
  std::iota(part.statics.begin(), part.statics.end(), 0);
  return part;
}

}  // namespace

std::size_t nodes_of(const Loop& loop) { return Nodes().of(loop.body); }

std::vector<KernelPart> cut_kernels(const Loop& loop, std::size_t nodes_max) {
  const std::vector<std::size_t> last = last_needed(loop.body);
  std::vector<std::span<const StmtPtr>> parts;
  const std::span<const StmtPtr> body(loop.body);
  std::size_t begin = 0, nodes = 0;
  for (std::size_t k = 0; k < body.size();) {
    // What has to stay together.
    std::size_t end = last[k] + 1;
    std::size_t more = 0;
    for (std::size_t j = k; j < end; ++j) {
      end = std::max(end, last[j] + 1);
      more += Nodes().of(*body[j]);
    }
    if (k > begin && nodes + more > nodes_max) {
      parts.push_back(body.subspan(begin, k - begin));
      begin = k;
      nodes = 0;
    }
    nodes += more;
    k = end;
  }
  if (parts.empty()) return {whole(loop)};
  parts.push_back(body.subspan(begin));
  std::vector<KernelPart> result;
  for (const auto& stmts : parts) result.push_back(part_of(loop, stmts));
  return result;
}

}  // namespace heddle::jit
