// The computed positions of the current statement: their ranges, and the loops that they are nested
// in. One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "jit/describe/expr.hpp"
#include "jit/loop/loop.hpp"

namespace heddle::jit {

/// A position: its expression, its range, and the treatment of values outside.
struct ComputedPosition {
  const ExprNode* node = nullptr;
  std::int64_t from = 0, to = 0;
  bool nearest = false;
};

class Positions {
 public:
  /// Begins a statement with this iteration space, without positions.
  void begin(const std::vector<SpaceAxis>& space);

  /// The range of the position of a subscript that keeps the subscript inside an axis of `extent`:
  /// [from, to).
  [[nodiscard]] std::pair<std::int64_t, std::int64_t> room(const Subscript& subscript,
                                                           std::int64_t extent) const;
  /// The variable of the position, if it has one.
  [[nodiscard]] std::optional<VarId> find(const ComputedPosition& position) const;
  /// The variable of the position: `fresh`, unless a position with the same value is known.
  /// `before` declares the locals that the value needs.
  VarId add(const ComputedPosition& position, Block before, ValuePtr value, VarId fresh);

  [[nodiscard]] std::size_t size() const noexcept { return all_.size(); }
  /// Forgets all positions after the first `size`.
  void shrink(std::size_t size) {
    all_.erase(all_.begin() + static_cast<std::ptrdiff_t>(size), all_.end());
  }

  /// `body`, from inside the loops over the axes up to `axis`, nested in the positions that depend
  /// on `axis` and on no later axis, in the order of their dependences.
  [[nodiscard]] Block inside(const SpaceAxis& axis, Block body) const;
  /// `body` in the positions that depend on no index.
  [[nodiscard]] Block inside_all(Block body) const { return at_depth(0, std::move(body)); }

 private:
  struct Known {
    ComputedPosition position;
    VarId var = 0;
    Block before;
    ValuePtr value;
    std::size_t depth = 0;  ///< number of axes up to the last that it depends on
  };
  [[nodiscard]] std::size_t depth_of(const ExprNode& node) const;
  [[nodiscard]] Block at_depth(std::size_t depth, Block body) const;

  std::map<std::uint64_t, std::int64_t> extents_;  // by index
  std::map<std::uint64_t, std::size_t> depths_;    // by index: its place in the space, from 1
  std::vector<Known> all_;
};

}  // namespace heddle::jit
