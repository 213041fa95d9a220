// See parallel.hpp.
#include "jit/schedule/parallel.hpp"

#include <algorithm>
#include <limits>
#include <optional>
#include <set>

#include "jit/loop/address.hpp"
#include "jit/loop/cost.hpp"
#include "jit/loop/own_scratch.hpp"
#include "jit/loop/rewrite.hpp"
#include "jit/loop/verify.hpp"

namespace heddle::jit {
namespace {

bool is_parallel_loop(const Stmt& stmt) {
  return stmt.kind == StmtKind::loop && stmt.mark == LoopMark::parallel;
}

/// Work in bytes loaded and stored: an operation takes about as long as a byte.
std::int64_t work_of(const Loop& loop, const StmtPtr& stmt) {
  const LoopCost cost = cost_of(loop, stmt);
  constexpr std::uint64_t most = std::numeric_limits<std::int64_t>::max() / 8;
  return static_cast<std::int64_t>(std::min(cost.bytes_read, most) +
                                   std::min(cost.bytes_written, most) +
                                   std::min(cost.operations, most));
}

std::int64_t parts_in(const Loop& loop, const StmtPtr& nest, std::int64_t part_bytes) {
  return std::min(nest->to - nest->from, work_of(loop, nest) / part_bytes);
}

}  // namespace

Block mark_parallel(const Loop& loop, std::int64_t part_bytes) {
  std::optional<std::set<BufferId>> own;
  Block marked;
  for (const StmtPtr& stmt : loop.body) {
    marked.push_back(stmt);
    const bool is_serial = stmt->kind == StmtKind::loop && stmt->mark == LoopMark::serial;
    if (!is_serial || parts_in(loop, stmt, part_bytes) < 2) continue;
    if (!own) own = own_scratch(loop);
    if (!shared_by_iterations(*stmt, *own).empty()) continue;
    marked.back() = make_loop(stmt->var, stmt->from, stmt->to, stmt->body, LoopMark::parallel);
  }
  return marked;
}

std::uint32_t parts_of(const Loop& kernel, std::int64_t part_bytes) {
  std::int64_t parts = 1;
  for (const StmtPtr& stmt : kernel.body) {
    if (is_parallel_loop(*stmt)) parts = std::max(parts, parts_in(kernel, stmt, part_bytes));
  }
  return static_cast<std::uint32_t>(std::min<std::int64_t>(parts, parts_max));
}

namespace {

/// True if a parallel loop reads a local that only the first part has filled: a local filled in a
/// loop that is not parallel, or computed from such a local.
bool reads_locals_of_first_part(const Block& body) {
  std::set<LocalId> filled;
  const auto reads = [&](const Block& statements) {
    bool found = false;
    walk_values(statements, [&](const Value& v) {
      found = found || (v.kind == ValueKind::local && filled.contains(v.local));
    });
    return found;
  };
  for (const StmtPtr& stmt : body) {
    if (is_parallel_loop(*stmt)) {
      if (reads({stmt})) return true;
      continue;
    }
    const bool by_first = binds_variable(*stmt) || reads({stmt});
    walk(Block{stmt}, [&](const Stmt& inner) {
      const bool fills = inner.kind == StmtKind::assign || inner.kind == StmtKind::declare;
      if (by_first && fills) filled.insert(inner.local);
    });
  }
  return false;
}

/// The loops without the marks that share out iterations.
StmtPtr one_after_the_other(const StmtPtr& stmt) {
  if (!binds_variable(*stmt)) return stmt;
  Block body;
  for (const StmtPtr& inner : stmt->body) body.push_back(one_after_the_other(inner));
  const bool shared_out = is_parallel_loop(*stmt) || stmt->mark == LoopMark::block;
  return shared_out ? make_loop(stmt->var, stmt->from, stmt->to, std::move(body))
                    : with_body(*stmt, std::move(body));
}

/// True if work of different parts conflicts: parallel loops, scalars (computed in every part), and
/// the statements that only the first part runs.
bool parts_meet(const Loop& kernel, ScratchOf scratch) {
  const std::set<BufferId> own =
      scratch == ScratchOf::each_part ? own_scratch(kernel) : std::set<BufferId>();
  Touched all(kernel), first(kernel);
  for (const StmtPtr& stmt : kernel.body) {
    Touched next(kernel);
    next.add(stmt);
    const bool by_first =
        binds_variable(*stmt) || stmt->kind == StmtKind::zero || stmt->kind == StmtKind::store;
    const bool by_all = !by_first || is_parallel_loop(*stmt);
    if (all.meets(next, own) || (by_all && first.meets(next, own))) return true;
    (by_all ? all : first).add(next);
  }
  return false;
}

}  // namespace

Loop with_parts_apart(Loop kernel, ScratchOf scratch) {
  if (std::ranges::none_of(kernel.body,
                           [](const StmtPtr& stmt) { return is_parallel_loop(*stmt); }))
    return kernel;
  if (!reads_locals_of_first_part(kernel.body) && !parts_meet(kernel, scratch)) return kernel;
  for (StmtPtr& each : kernel.body) each = one_after_the_other(each);
  return kernel;
}

void Touched::add(const StmtPtr& stmt) {
  is_parallel_ = is_parallel_ || is_parallel_loop(*stmt);
  statement(*stmt);
}

void Touched::add(const Touched& other) {
  is_parallel_ = is_parallel_ || other.is_parallel_;
  merge(touched_, other.touched_);
  merge(written_, other.written_);
}

void Touched::statement(const Stmt& stmt) {
  count_step();
  if (stmt.value) {
    walk(*stmt.value, [this](const Value& v) {
      if (v.kind == ValueKind::load) touch(touched_, v.buffer, v.subscripts);
    });
  }
  if (stmt.kind == StmtKind::zero) touched_[stmt.buffer].whole = written_[stmt.buffer].whole = true;
  if (stmt.kind == StmtKind::store) {
    touch(touched_, stmt.buffer, stmt.subscripts);
    touch(written_, stmt.buffer, stmt.subscripts);
  }
  if (!binds_variable(stmt) || stmt.from >= stmt.to) return;
  vars_[stmt.var] = {stmt.from, stmt.to - 1};
  for (const StmtPtr& inner : stmt.body) statement(*inner);
  vars_.erase(stmt.var);
}

void Touched::touch(Parts& parts, BufferId id, const std::vector<Affine>& subscripts) {
  Part part;
  part.whole = is_flat(loop_->buffers[id].type.dims, subscripts);
  for (const Affine& index : subscripts) {
    const auto reached = reach(index, [this](const AffineTerm& term) {
      return term.kind == AffineTerm::Kind::loop ? std::optional(vars_.at(term.id)) : std::nullopt;
    });
    part.whole = part.whole || !reached;
    if (reached) part.box.push_back(*reached);
  }
  merge(parts, {{id, std::move(part)}});
}

void Touched::merge(Parts& into, const Parts& more) {
  for (const auto& [id, part] : more) {
    if (const auto [at, is_new] = into.try_emplace(id, part); !is_new) merge(at->second, part);
  }
}

void Touched::merge(Part& into, const Part& more) {
  into.whole = into.whole || more.whole;
  if (into.whole) return;
  for (std::size_t axis = 0; axis < into.box.size(); ++axis) {
    Interval& all = into.box[axis];
    all.lowest = std::min(all.lowest, more.box[axis].lowest);
    all.highest = std::max(all.highest, more.box[axis].highest);
  }
}

bool Touched::overlap(const Part& a, const Part& b) {
  if (a.whole || b.whole) return true;
  for (std::size_t axis = 0; axis < a.box.size(); ++axis) {
    if (a.box[axis].highest < b.box[axis].lowest || b.box[axis].highest < a.box[axis].lowest)
      return false;
  }
  return true;
}

bool Touched::writes_into(const Touched& other, const std::set<BufferId>& own) const {
  for (const auto& [to, part] : written_) {
    if (own.contains(to)) continue;
    const BufferDecl& written = loop_->buffers[to];
    for (const auto& [from, its] : other.touched_) {
      const BufferDecl& touched = loop_->buffers[from];
      const bool donated = written.role == Role::output && touched.role == Role::input &&
                           written.type == touched.type;
      if ((to == from || donated) && overlap(part, its)) return true;
    }
  }
  return false;
}

bool Touched::meets(const Touched& other, const std::set<BufferId>& own) const {
  return writes_into(other, own) || other.writes_into(*this, own);
}

}  // namespace heddle::jit
