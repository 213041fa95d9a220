// See lower/statement_shape.hpp.
#include "jit/lower/statement_shape.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "heddle/status.hpp"
#include "jit/loop/boxes.hpp"

namespace heddle::jit {
namespace {

/// True if the computed position of `s` does not depend on the indices in `untold`.
bool stays(const Subscript& s, const std::map<std::uint64_t, std::int64_t>& untold) {
  bool stays = true;
  each_position({s}, [&](const ExprNode& position) {
    walk(position, [&](const ExprNode& node) {
      for (const Subscript& each : node.subscripts) {
        for (const auto& term : each.terms()) {
          const auto* const index = std::get_if<Index>(&term.index);
          stays = stays && !(index != nullptr && untold.contains(index->id()));
        }
      }
    });
  });
  return stays;
}

/// Removes from `untold` the indices that the value of `s` determines, given the other indices:
/// where each coefficient exceeds the reach of all smaller coefficients together.
void tell(const Subscript& s, std::map<std::uint64_t, std::int64_t>& untold) {
  if (!stays(s, untold)) return;
  std::map<std::uint64_t, std::uint64_t> steps;  // indices by coefficient
  for (const auto& term : s.terms()) {
    const auto* const index = std::get_if<Index>(&term.index);
    if (index == nullptr || !untold.contains(index->id())) continue;
    const bool minus = term.coefficient < 0;
    const auto step = static_cast<std::uint64_t>(term.coefficient);
    if (!steps.emplace(minus ? 0 - step : step, index->id()).second) return;
  }
  std::uint64_t reach = 0;  // within the axis, as the subscript is
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
    if (s.is_computed()) return false;
    Interval reached{s.constant(), s.constant()};
    std::vector<std::pair<Int128, std::int64_t>> steps;
    for (const auto& term : s.terms()) {
      const auto* const index = std::get_if<Index>(&term.index);
      if (index == nullptr || !used.insert(index->id()).second) return false;
      const auto axis =
          std::ranges::find(space, index->id(), [](const SpaceAxis& a) { return a.index.id(); });
      reached.add(term.coefficient, 0, axis->extent - 1);
      const Int128 step = term.coefficient;
      steps.emplace_back(step < 0 ? -step : step, axis->extent);
    }
    const bool is_whole = reached.lowest == 0 && reached.highest == node.target->dims()[k] - 1;
    if (!is_whole || !is_dense(std::move(steps))) return false;
  }
  return true;
}

void require_ranges(const Tensor& tensor, const std::vector<Subscript>& subscripts) {
  for (const Subscript& subscript : subscripts) {
    std::size_t count = 0;
    const StaticIndex* open = nullptr;
    for (const auto& term : subscript.terms()) {
      const auto* index = std::get_if<StaticIndex>(&term.index);
      if (index == nullptr) continue;
      ++count;
      if (!index->range()) open = index;
    }
    if (count < 2 || open == nullptr) continue;
    throw Error(ErrorCode::invalid_argument,
                fmt::format("static index '{}' shares a subscript of '{}' with another static "
                            "index; declare it with a "
                            "range: StaticIndex(\"{}\", range)",
                            open->label(), tensor.label(), open->label()));
  }
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
