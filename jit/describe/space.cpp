// The iteration space of a statement: infers and checks the indices and their extents (J2).
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <unordered_set>

#include "heddle/status.hpp"
#include "jit/describe/expr.hpp"
#include "jit/describe/program_text.hpp"
#include "jit/loop/interval.hpp"

namespace heddle::jit {
namespace {

[[noreturn]] void refuse(std::string text) {
  throw Error(ErrorCode::invalid_argument, std::move(text));
}

/// "axis 1 of 'b' f32[128,32]"
std::string axis_of(const Tensor& tensor, std::size_t axis) {
  return fmt::format("axis {} of '{}' {}", axis, tensor.label(), tensor.type().to_string());
}

std::string show(const Index& index, std::size_t position) {
  return index.label().empty() ? fmt::format("index #{}", position)
                               : fmt::format("index '{}'", index.label());
}

class Space {
 public:
  explicit Space(const StatementNode& statement) : statement_(statement) {}

  std::vector<SpaceAxis> infer() {
    meet(statement_.subscripts);
    lhs_count_ = order_.size();
    meet(statement_.order);
    meet(*statement_.value);
    if (is_computed_) check_positions();
    fix(*statement_.target, statement_.subscripts);
    each_read([this](const Tensor& t, const std::vector<Subscript>& s) { fix(t, s); });
    std::vector<SpaceAxis> axes = close();
    // An empty iteration space accesses no element; an empty reduction still writes its neutral
    // element.
    if (empty_) return axes;
    check(*statement_.target, statement_.subscripts, true);
    const auto check_read = [this](const ExprNode& node) {
      if (node.tensor) check(*node.tensor, node.subscripts, false);
    };
    if (!empty_sum_) {
      walk(statement_, check_read);
    } else {
      NodeWalk(check_read).positions(statement_.subscripts);
    }
    return axes;
  }

 private:
  struct Fixed {
    std::int64_t extent;
    std::string by;  ///< the source of the extent, for messages
  };

  template <class Visit>
  void each_read(const Visit& visit) const {
    walk(statement_, [&](const ExprNode& node) {
      if (node.tensor) visit(*node.tensor, node.subscripts);
    });
  }

  /// Records indices in order of appearance.
  void meet(const ExprNode& node) {
    if (!met_.insert(&node).second) return;
    for (const auto& arg : node.args) meet(*arg);
    meet(node.subscripts);
  }
  void meet(const std::vector<Subscript>& subscripts) {
    for (const Subscript& subscript : subscripts) {
      if (const auto& position = Inside::position_of(subscript)) {
        is_computed_ = true;
        meet(*position);
      }
      for (const auto& term : subscript.terms()) {
        const auto* index = std::get_if<Index>(&term.index);
        if (index == nullptr || positions_.contains(index->id())) continue;
        positions_.emplace(index->id(), order_.size());
        order_.push_back(*index);
        if (index->extent()) fixed_[index->id()] = {*index->extent(), "its declaration"};
      }
    }
  }

  /// Checks that no position reads the target: positions are computed before any write.
  void check_positions() const {
    const auto check_in = [this](const Tensor& tensor, const std::vector<Subscript>& subscripts) {
      for (std::size_t axis = 0; axis < subscripts.size(); ++axis) {
        const auto& position = Inside::position_of(subscripts[axis]);
        if (!position) continue;
        walk(*position, [&](const ExprNode& node) {
          if (node.kind != ExprKind::read || *node.tensor != *statement_.target) return;
          refuse(
              fmt::format("{} is subscripted by {}, which reads '{}', and the statement assigns "
                          "that; assign '{}' to another tensor first, and read the position "
                          "there",
                          axis_of(tensor, axis), print_subscript(subscripts[axis]),
                          node.tensor->label(), node.tensor->label()));
        });
      }
    };
    check_in(*statement_.target, statement_.subscripts);
    each_read(check_in);
  }

  std::string name(const Index& index) const { return show(index, positions_.at(index.id())); }

  /// Takes extents from plain subscripts; a declared extent wins, two inferred extents must agree.
  void fix(const Tensor& tensor, const std::vector<Subscript>& subscripts) {
    for (std::size_t axis = 0; axis < subscripts.size(); ++axis) {
      const Subscript& subscript = subscripts[axis];
      if (subscript.constant() != 0 || subscript.terms().size() != 1 || subscript.is_computed())
        continue;
      const auto& term = subscript.terms().front();
      const auto* index = std::get_if<Index>(&term.index);
      if (index == nullptr || term.coefficient != 1 || index->extent()) continue;
      const std::int64_t extent = tensor.dims()[axis];
      const auto [at, fresh] =
          fixed_.try_emplace(index->id(), Fixed{extent, axis_of(tensor, axis)});
      if (!fresh && at->second.extent != extent) {
        refuse(fmt::format(
            "{} runs over {} by {} but over {} by {}; the extents must agree (or declare "
            "the index with the extent you mean)",
            name(*index), at->second.extent, at->second.by, extent, axis_of(tensor, axis)));
      }
    }
  }

  std::vector<SpaceAxis> close() {
    std::vector<SpaceAxis> axes;
    for (std::size_t k = 0; k < order_.size(); ++k) {
      const auto at = fixed_.find(order_[k].id());
      if (at == fixed_.end()) {
        refuse(fmt::format(
            "{} in the statement for '{}' has no extent: no plain subscript fixes it; declare "
            "it as Index(extent)",
            name(order_[k]), statement_.target->label()));
      }
      const bool reduced = k >= lhs_count_;
      if (reduced && !statement_.accumulate) {
        refuse(fmt::format(
            "{} is missing on the left of '{} ='; reduce over it with +=, sum(...) or the like",
            name(order_[k]), statement_.target->label()));
      }
      axes.push_back({order_[k], at->second.extent, reduced});
      bool& empty = reduced ? empty_sum_ : empty_;
      empty = empty || at->second.extent == 0;
    }
    return axes;
  }

  /// Checks that every subscript stays inside its axis for all values of its indices. A static
  /// index without a range is checked when the routine is scheduled; beside a computed position, a
  /// static index must have a range.
  void check(const Tensor& tensor, const std::vector<Subscript>& subscripts, bool writes) const {
    for (std::size_t axis = 0; axis < subscripts.size(); ++axis) {
      Interval reached{subscripts[axis].constant(), subscripts[axis].constant()};
      bool bounded = true;
      std::string statics;  // for the message
      for (const auto& term : subscripts[axis].terms()) {
        std::optional<std::int64_t> extent;
        if (const auto* index = std::get_if<Index>(&term.index)) {
          extent = fixed_.at(index->id()).extent;
        } else {
          const auto& static_index = std::get<StaticIndex>(term.index);
          extent = static_index.range();
          if (extent) {
            statics += fmt::format(", where static index '{}' has range {}", static_index.label(),
                                   *extent);
          }
        }
        if (!extent) {
          bounded = false;
          continue;
        }
        if (*extent == 0) continue;  // a static index without values: refused when scheduled
        reached.add(term.coefficient, 0, *extent - 1);
      }
      if (subscripts[axis].is_computed()) {
        if (!bounded) {
          refuse(
              fmt::format("{} is subscripted by {}, where a computed position meets a static "
                          "index without a range; declare the index with one: "
                          "StaticIndex(label, range)",
                          axis_of(tensor, axis), print_subscript(subscripts[axis])));
        }
        if (writes || reached.highest - reached.lowest < tensor.dims()[axis]) continue;
        refuse(
            fmt::format("{} is subscripted by {}: no position in it is inside, as {} elements "
                        "are read together; give the axis as many, or read nothing",
                        axis_of(tensor, axis), print_subscript(subscripts[axis]),
                        narrow(reached.highest - reached.lowest) + 1));
      }
      if (!bounded || reached.inside(tensor.dims()[axis])) continue;
      refuse(fmt::format("{} is subscripted from {} to {} (expected 0 to {}){}",
                         axis_of(tensor, axis), narrow(reached.lowest), narrow(reached.highest),
                         tensor.dims()[axis] - 1, statics));
    }
  }

  const StatementNode& statement_;
  std::unordered_set<const ExprNode*> met_;
  bool is_computed_ = false;  // a subscript has a computed position
  std::vector<Index> order_;
  std::map<std::uint64_t, std::size_t> positions_;
  std::map<std::uint64_t, Fixed> fixed_;
  std::size_t lhs_count_ = 0;
  bool empty_ = false;      // an index of the left side has no values
  bool empty_sum_ = false;  // a reduced index has no values
};

}  // namespace

std::vector<SpaceAxis> iteration_space(const StatementNode& statement) {
  return Space(statement).infer();
}

}  // namespace heddle::jit
