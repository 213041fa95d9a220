// See lower/positions.hpp.
#include "jit/lower/positions.hpp"

#include <algorithm>

#include "jit/loop/interval.hpp"

namespace heddle::jit {
namespace {

bool is_same_place(const ComputedPosition& a, const ComputedPosition& b) {
  return a.from == b.from && a.to == b.to && a.nearest == b.nearest;
}

}  // namespace

void Positions::begin(const std::vector<SpaceAxis>& space) {
  all_.clear();
  extents_.clear();
  depths_.clear();
  for (const SpaceAxis& axis : space) {
    extents_[axis.index.id()] = axis.extent;
    depths_.emplace(axis.index.id(), depths_.size() + 1);
  }
}

std::pair<std::int64_t, std::int64_t> Positions::room(const Subscript& subscript,
                                                      std::int64_t extent) const {
  Interval rest{subscript.constant(), subscript.constant()};
  for (const auto& term : subscript.terms()) {
    const auto* const index = std::get_if<Index>(&term.index);
    const std::int64_t values = index != nullptr
                                    ? extents_.at(index->id())
                                    : std::get<StaticIndex>(term.index).range().value_or(1);
    rest.add(term.coefficient, 0, std::max<std::int64_t>(values - 1, 0));
  }
  return {narrow(-rest.lowest), narrow(extent - rest.highest)};
}

std::optional<VarId> Positions::find(const ComputedPosition& position) const {
  for (const Known& known : all_) {
    if (known.position.node == position.node && is_same_place(known.position, position))
      return known.var;
  }
  return std::nullopt;
}

VarId Positions::add(const ComputedPosition& position, Block before, ValuePtr value, VarId fresh) {
  for (const Known& known : all_) {
    const bool same = is_same_place(known.position, position) && known.before.empty() &&
                      before.empty() && equal(*known.value, *value);
    if (same) return known.var;
  }
  all_.push_back({position, fresh, std::move(before), std::move(value), depth_of(*position.node)});
  return fresh;
}

std::size_t Positions::depth_of(const ExprNode& node) const {
  std::size_t depth = 0;
  walk(node, [&](const ExprNode& each) {
    for (const Subscript& subscript : each.subscripts) {
      for (const auto& term : subscript.terms()) {
        if (const auto* const index = std::get_if<Index>(&term.index))
          depth = std::max(depth, depths_.at(index->id()));
      }
    }
  });
  return depth;
}

Block Positions::inside(const SpaceAxis& axis, Block body) const {
  return at_depth(depths_.at(axis.index.id()), std::move(body));
}

Block Positions::at_depth(std::size_t depth, Block body) const {
  for (std::size_t k = all_.size(); k-- > 0;) {
    const Known& known = all_[k];
    if (known.depth != depth) continue;
    const ComputedPosition& at = known.position;
    Block outer = known.before;
    outer.push_back(make_at(known.var, at.from, at.to, known.value, at.nearest, std::move(body)));
    body = std::move(outer);
  }
  return body;
}

}  // namespace heddle::jit
