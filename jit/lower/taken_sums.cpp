// See lower/taken_sums.hpp.
#include "jit/lower/taken_sums.hpp"

#include <algorithm>
#include <set>
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

/// Finds the sums of a part of a definition: the loops inside the loops over the element's axes.
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

/// True if the statement is loops around straight-line code that sums nothing: an element for each
/// point.
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

bool TakenSums::fit(BufferId buffer, const Sums& sums) const {
  if (sums.count == 0) return true;
  return std::ranges::all_of(uses_.readers(buffer), [&](const auto& reader) {
    const auto& [at, loads] = reader;
    const auto known = taken_.find(at);
    const Sums taken = known == taken_.end() ? Sums() : known->second;
    if (sums.read_along_memory) return taken.read_along_memory;
    return sums.count == 1 && loads == 1 && taken.count == 0 && is_element_by_element(uses_[at]);
  });
}

void TakenSums::take(BufferId buffer, const Sums& sums) {
  if (sums.count == 0) return;
  for (const auto& [at, loads] : uses_.readers(buffer)) {
    Sums& taken = taken_[at];
    taken = joined(taken, sums, loads);
  }
}

}  // namespace heddle::jit
