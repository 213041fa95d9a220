// See lower/taken_sums.hpp.
#include "jit/lower/taken_sums.hpp"

#include <algorithm>
#include <optional>
#include <vector>

#include "jit/loop/rewrite.hpp"
#include "jit/vector/lanes.hpp"

namespace heddle::jit {
namespace {

/// Rows of fewer terms are not worth vectors.
constexpr std::int64_t row_terms_min = 16;

Sums joined(const Sums& sums, const Sums& more, std::size_t times = 1) {
  return {sums.count + times * more.count, sums.read_along_memory && more.read_along_memory};
}

/// Finds the sums of a part of a definition: the loops inside the loops over the axes.
class SumFinder {
 public:
  SumFinder(const Loop& loop, const DefinitionPart& part) : loop_(loop) {
    for (const auto& axis : part.axes) {
      if (axis) axes_.push_back(*axis);
    }
    look(part.body);
  }
  [[nodiscard]] const Sums& found() const noexcept { return found_; }

 private:
  void look(const Block& body) {
    for (const StmtPtr& stmt : body) {
      if (stmt->kind == StmtKind::loop)
        found_ = joined(found_, {1, reads_along_memory(stmt)});
      else
        look(stmt->body);
    }
  }

  /// True if a load in the loops reads a separate element at each point of all loops, and the next
  /// element at the next term.
  [[nodiscard]] bool reads_along_memory(const StmtPtr& sum) const {
    std::vector<StmtPtr> reduced;
    const Block* body = nullptr;
    for (StmtPtr at = sum; at->kind == StmtKind::loop && !at->body.empty(); at = at->body.back()) {
      reduced.push_back(at);
      body = &at->body;
    }
    const Stmt& innermost = *reduced.back();
    if (innermost.to - innermost.from < row_terms_min) return false;
    bool found = false;
    walk_values(*body, [&](const Value& v) {
      if (v.kind != ValueKind::load) return;
      const auto moves = [&](VarId var) { return stride(loop_, v.buffer, v.subscripts, var) != 0; };
      found =
          found || (stride(loop_, v.buffer, v.subscripts, innermost.var) == 1 &&
                    std::ranges::all_of(axes_, moves) &&
                    std::ranges::all_of(reduced, [&](const StmtPtr& r) { return moves(r->var); }));
    });
    return found;
  }

  const Loop& loop_;
  std::vector<VarId> axes_;
  Sums found_;
};

/// True if the load reads a matrix across the loop of `last`, and along another of the loops.
bool reads_across(const Loop& loop, const Value& load, const std::vector<VarId>& loops,
                  VarId last) {
  const auto step = [&](VarId var) { return stride(loop, load.buffer, load.subscripts, var); };
  return step(last) > 1 && std::ranges::any_of(loops, [&](VarId var) { return step(var) == 1; });
}

/// True if the part reads one buffer along the last axis, and another buffer across that axis: the
/// schedule of transposes turns blocks of such arrays.
bool turns(const Loop& loop, const DefinitionPart& part) {
  if (part.axes.empty() || !part.axes.back()) return false;
  const VarId last = *part.axes.back();
  std::vector<VarId> axes;
  for (const auto& axis : part.axes) {
    if (axis) axes.push_back(*axis);
  }
  bool along = false, across = false;
  walk_values(part.body, [&](const Value& v) {
    if (v.kind != ValueKind::load) return;
    along = along || stride(loop, v.buffer, v.subscripts, last) == 1;
    across = across || reads_across(loop, v, axes, last);
  });
  return along && across;
}

/// True if the statement, which computes element by element, reads another buffer than `buffer`
/// across the axis along which it stores.
bool turns_others(const Loop& loop, const StmtPtr& top, BufferId buffer) {
  std::vector<VarId> loops;
  const Stmt* store = nullptr;
  walk(Block{top}, [&](const Stmt& stmt) {
    if (stmt.kind == StmtKind::loop) loops.push_back(stmt.var);
    if (stmt.kind == StmtKind::store) store = &stmt;
  });
  bool found = false;
  for (const VarId last : loops) {
    if (store == nullptr || stride(loop, store->buffer, store->subscripts, last) != 1) continue;
    walk_values(Block{top}, [&](const Value& v) {
      found = found || (v.kind == ValueKind::load && v.buffer != buffer &&
                        reads_across(loop, v, loops, last));
    });
  }
  return found;
}

/// True if the statement is loops around straight-line code without sums: one element per point.
bool is_element_by_element(const StmtPtr& top) {
  const Block alone{top};
  const Block* body = &alone;
  while (body->size() == 1 && body->front()->kind == StmtKind::loop) body = &body->front()->body;
  return std::ranges::none_of(*body, [](const StmtPtr& stmt) {
    return binds_variable(*stmt) || stmt->kind == StmtKind::assign;
  });
}

}  // namespace

Sums TakenSums::of(const Definition& definition) const {
  Sums sums;
  for (const DefinitionPart& part : definition.parts)
    sums = joined(sums, SumFinder(uses_.loop(), part).found());
  for (const KernelUses::Position at : definition.positions) {
    if (const auto taken = taken_.find(at); taken != taken_.end())
      sums = joined(sums, taken->second);
  }
  return sums;
}

bool TakenSums::fit(BufferId buffer, const Definition& definition) const {
  const Sums sums = of(definition);
  const bool is_turned = std::ranges::any_of(
      definition.parts, [&](const DefinitionPart& part) { return turns(uses_.loop(), part); });
  if (sums.count == 0 && !is_turned) return true;
  return std::ranges::all_of(uses_.readers(buffer), [&](const auto& reader) {
    const auto& [at, loads] = reader;
    const auto known = taken_.find(at);
    const Sums taken = known == taken_.end() ? Sums() : known->second;
    if (is_turned && !is_element_by_element(uses_[at])) return false;
    if (sums.read_along_memory) return taken.read_along_memory;
    return sums.count == 1 && loads == 1 && taken.count == 0 && is_element_by_element(uses_[at]) &&
           !turns_others(uses_.loop(), uses_[at], buffer);
  });
}

void TakenSums::take(BufferId buffer, const Definition& definition) {
  const Sums sums = of(definition);
  if (sums.count == 0) return;
  for (const auto& [at, loads] : uses_.readers(buffer)) {
    Sums& taken = taken_[at];
    taken = joined(taken, sums, loads);
  }
}

}  // namespace heddle::jit
