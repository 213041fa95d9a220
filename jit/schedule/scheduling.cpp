// See schedule/scheduling.hpp.
#include "jit/schedule/scheduling.hpp"

#include <algorithm>
#include <utility>

#include "heddle/tensor.hpp"

namespace heddle::jit {

Fresh::Fresh(const Loop& loop) {
  walk(loop.body, [this](const Stmt& stmt) {
    if (binds_variable(stmt)) next_var = std::max(next_var, stmt.var + 1);
    if (stmt.kind == StmtKind::declare) next_local = std::max(next_local, stmt.local + 1);
  });
}

void Scheduling::drop_scratch(std::size_t from) {
  const auto kept = static_cast<std::ptrdiff_t>(from);
  lowered.loop.buffers.erase(lowered.loop.buffers.begin() + kept, lowered.loop.buffers.end());
  lowered.tensors.erase(lowered.tensors.begin() + kept, lowered.tensors.end());
  if (!counted_accesses.empty()) counted_accesses.resize(from);
}

std::vector<std::int64_t> accesses_of_buffers(const Block& body, std::size_t buffers) {
  std::vector<std::int64_t> counts(buffers);
  each_touched(body, [&](BufferId buffer) { ++counts[buffer]; });
  return counts;
}

std::vector<std::vector<std::size_t>> users_of_buffers(const Block& body, std::size_t buffers) {
  std::vector<std::vector<std::size_t>> users(buffers);
  for (std::size_t k = 0; k < body.size(); ++k) {
    each_touched({body[k]}, [&](BufferId buffer) {
      std::vector<std::size_t>& of = users[buffer];
      if (of.empty() || of.back() != k) of.push_back(k);
    });
  }
  return users;
}

const std::vector<std::int64_t>& Scheduling::all_accesses() {
  if (counted_accesses.empty())
    counted_accesses = accesses_of_buffers(lowered.loop.body, lowered.loop.buffers.size());
  return counted_accesses;
}

BufferId Scheduling::add_scratch(const char* label, DType type, Dims dims) {
  Tensor tensor(label, type, std::move(dims));
  lowered.loop.buffers.push_back({Role::scratch, tensor.type()});
  lowered.tensors.push_back(std::move(tensor));
  if (!counted_accesses.empty()) counted_accesses.push_back(0);
  return static_cast<BufferId>(lowered.loop.buffers.size() - 1);
}

bool is_straight(const Block& body) {
  return std::ranges::all_of(body, [](const StmtPtr& stmt) {
    return (stmt->kind == StmtKind::declare && stmt->dims.empty()) ||
           stmt->kind == StmtKind::assign || stmt->kind == StmtKind::store ||
           stmt->kind == StmtKind::comment;
  });
}

bool declares_local(const Block& body) {
  return std::ranges::any_of(body, [](const StmtPtr& stmt) {
    return stmt->kind == StmtKind::declare || declares_local(stmt->body);
  });
}

std::size_t past_comments(const Block& body, std::size_t k) {
  while (k < body.size() && body[k]->kind == StmtKind::comment) ++k;
  return k;
}

void append_comments(Block& to, const Block& body, std::size_t from, std::size_t end) {
  for (std::size_t k = from; k < end; ++k) {
    if (body[k]->kind == StmtKind::comment) to.push_back(body[k]);
  }
}

Block copied(Scheduling& in, const Block& body, Substitution by) {
  for (const StmtPtr& stmt : body) {
    if (stmt->kind == StmtKind::declare) by.locals[stmt->local] = in.fresh.local();
  }
  Block result;
  for (const StmtPtr& stmt : body) result.push_back(substitute(stmt, by));
  return result;
}

Block with_own_names(Fresh& fresh, const Block& body, Substitution by) {
  walk(body, [&](const Stmt& stmt) {
    if (binds_variable(stmt)) by.loops[stmt.var] = fresh.var();
    if (stmt.kind == StmtKind::declare) by.locals[stmt.local] = fresh.local();
  });
  Block result;
  for (const StmtPtr& stmt : body) result.push_back(substitute(stmt, by));
  return result;
}

Block renumbered(const Block& body) {
  Substitution by;
  walk(body, [&](const Stmt& stmt) {
    if (binds_variable(stmt)) by.loops.try_emplace(stmt.var, static_cast<VarId>(by.loops.size()));
    if (stmt.kind == StmtKind::declare)
      by.locals.try_emplace(stmt.local, static_cast<LocalId>(by.locals.size()));
  });
  Block result;
  for (const StmtPtr& stmt : body) result.push_back(substitute(stmt, by));
  return result;
}

}  // namespace heddle::jit
