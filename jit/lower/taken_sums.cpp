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

/// The loops of a statement, and the variable along which the statement stores.
struct Loops {
  std::vector<VarId> all{};
  std::optional<VarId> last{};
};
Loops loops_of(const DefinitionPart& part) {
  Loops loops;
  for (const auto& axis : part.axes) {
    if (axis) loops.all.push_back(*axis);
  }
  if (!part.axes.empty()) loops.last = part.axes.back();
  return loops;
}
Loops loops_of(const Loop& loop, const StmtPtr& top) {
  Loops loops;
  const Stmt* store = nullptr;
  walk(Block{top}, [&](const Stmt& stmt) {
    if (stmt.kind == StmtKind::loop) loops.all.push_back(stmt.var);
    if (stmt.kind == StmtKind::store) store = &stmt;
  });
  for (const VarId var : loops.all) {
    if (store != nullptr && stride(loop, store->buffer, store->subscripts, var) == 1)
      loops.last = var;
  }
  return loops;
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

TakenSums::Directions TakenSums::directions(const Block& body, const std::vector<VarId>& loops,
                                            std::optional<VarId> last,
                                            std::optional<BufferId> without) const {
  Directions found;
  if (!last) return found;
  walk_values(body, [&](const Value& v) {
    if (v.kind != ValueKind::load || v.buffer == without) return;
    const auto step = [&](VarId var) { return stride(uses_.loop(), v.buffer, v.subscripts, var); };
    const auto moves = [&](VarId var) { return step(var) != 0; };
    if (std::ranges::count_if(loops, moves) < 2) return;  // a row or a column
    const bool along = step(*last) == 1;
    const bool across =
        step(*last) > 1 && std::ranges::any_of(loops, [&](VarId var) { return step(var) == 1; });
    const bool is_turned = turned_.contains(v.buffer);
    found.along = found.along || (is_turned ? across : along);
    found.across = found.across || (is_turned ? along : across);
  });
  return found;
}

TakenSums::Directions TakenSums::directions(const Definition& definition) const {
  Directions all;
  for (const DefinitionPart& part : definition.parts) {
    const Loops loops = loops_of(part);
    const Directions found = directions(part.body, loops.all, loops.last, {});
    all.along = all.along || found.along;
    all.across = all.across || found.across;
  }
  return all;
}

bool TakenSums::fit(BufferId buffer, const Definition& definition) const {
  const Sums sums = of(definition);
  const Directions reads = directions(definition);
  const bool turns = sums.count == 0 && reads.along && reads.across;
  if (sums.count == 0 && !turns) return true;
  return std::ranges::all_of(uses_.readers(buffer), [&](const auto& reader) {
    const auto& [at, loads] = reader;
    const StmtPtr& top = uses_[at];
    if (turns) return is_element_by_element(top);
    const auto known = taken_.find(at);
    const Sums taken = known == taken_.end() ? Sums() : known->second;
    if (sums.read_along_memory) return taken.read_along_memory;
    if (sums.count > 1 || loads > 1 || taken.count > 0 || !is_element_by_element(top)) return false;
    const Loops loops = loops_of(uses_.loop(), top);
    return !directions({top}, loops.all, loops.last, buffer).across;
  });
}

void TakenSums::take(BufferId buffer, const Definition& definition) {
  const Sums sums = of(definition);
  const Directions reads = directions(definition);
  if (sums.count == 0 && reads.across && !reads.along) turned_.insert(buffer);
  if (sums.count == 0) return;
  for (const auto& [at, loads] : uses_.readers(buffer)) {
    Sums& taken = taken_[at];
    taken = joined(taken, sums, loads);
  }
}

}  // namespace heddle::jit
