// See lower/statement_shape.hpp.
#include "jit/lower/statement_shape.hpp"

#include <algorithm>
#include <map>
#include <set>

namespace heddle::jit {
namespace {

/// Takes the indices from `untold` that the value of `s` tells once the others are told: where
/// each coefficient exceeds all that the smaller ones reach together.
void tell(const Subscript& s, std::map<std::uint64_t, std::int64_t>& untold) {
  std::map<std::uint64_t, std::uint64_t> steps;  // indices by coefficient
  for (const auto& term : s.terms()) {
    const auto* const index = std::get_if<Index>(&term.index);
    if (index == nullptr || !untold.contains(index->id())) continue;
    const bool minus = term.coefficient < 0;
    const auto step = static_cast<std::uint64_t>(term.coefficient);
    if (!steps.emplace(minus ? 0 - step : step, index->id()).second) return;
  }
  std::uint64_t reach = 0;  // within the axis, since the subscript is
  for (const auto& [step, index] : steps) {
    if (step <= reach) return;
    reach += step * static_cast<std::uint64_t>(untold.at(index) - 1);
  }
  for (const auto& [step, index] : steps) untold.erase(index);
}

}  // namespace

bool reduces(const std::vector<SpaceAxis>& space) {
  return std::ranges::any_of(space, &SpaceAxis::reduced);
}

bool repeats(const std::vector<SpaceAxis>& space) {
  return std::ranges::any_of(
      space, [](const SpaceAxis& axis) { return axis.reduced && axis.extent != 1; });
}

bool injective(const StatementNode& node, const std::vector<SpaceAxis>& space) {
  std::map<std::uint64_t, std::int64_t> untold;  // extents by index
  for (const SpaceAxis& axis : space) {
    if (!axis.reduced && axis.extent != 1) untold.emplace(axis.index.id(), axis.extent);
  }
  for (std::size_t before = 0; before != untold.size();) {
    before = untold.size();
    for (const Subscript& s : node.subscripts) tell(s, untold);
  }
  return untold.empty();
}

bool covers(const StatementNode& node, const std::vector<SpaceAxis>& space) {
  std::set<std::uint64_t> used;
  for (std::size_t k = 0; k < node.subscripts.size(); ++k) {
    const Subscript& s = node.subscripts[k];
    const std::int64_t extent = node.target->dims()[k];
    if (extent == 1 && s.terms().empty()) continue;
    const bool plain = s.constant() == 0 && s.terms().size() == 1 &&
                       s.terms()[0].coefficient == 1 &&
                       std::holds_alternative<Index>(s.terms()[0].index);
    if (!plain) return false;
    const std::uint64_t id = std::get<Index>(s.terms()[0].index).id();
    const auto axis = std::ranges::find(space, id, [](const SpaceAxis& a) { return a.index.id(); });
    if (axis->extent != extent || !used.insert(id).second) return false;
  }
  return true;
}

bool reads_target(const StatementNode& node) {
  bool reads = false;
  walk(*node.value, [&](const ExprNode& e) {
    reads = reads || (e.kind == ExprKind::read && *e.tensor == *node.target);
  });
  return reads;
}

std::pair<std::vector<SpaceAxis>, std::vector<SpaceAxis>> split(
    const std::vector<SpaceAxis>& space) {
  std::pair<std::vector<SpaceAxis>, std::vector<SpaceAxis>> parts;
  for (const SpaceAxis& axis : space) (axis.reduced ? parts.second : parts.first).push_back(axis);
  return parts;
}

}  // namespace heddle::jit
