// Boxes of elements: the written parts of a buffer, where stores cover it in parts. Values; one
// thread each.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "heddle/types.hpp"
#include "jit/loop/interval.hpp"

namespace heddle::jit {

/// The elements whose subscripts lie in these intervals, axis by axis.
using Box = std::vector<Interval>;

/// True if sums of steps, with each step taken 0 to count - 1 times, include every number between
/// the least and the greatest sum. `steps`: sizes and counts, both at least 1.
[[nodiscard]] bool is_dense(std::vector<std::pair<Int128, std::int64_t>> steps);

/// The written part of a buffer, as disjoint boxes; two adjoining boxes that form a box are merged.
/// Conservative: of partly overlapping boxes, and of very many boxes, some are left out.
class Cover {
 public:
  void add(Box box);
  [[nodiscard]] bool is_empty() const noexcept { return boxes_.empty(); }
  [[nodiscard]] bool contains(const Box& box) const;
  /// True if every element of a buffer of these extents is covered.
  [[nodiscard]] bool is_whole(const Dims& dims) const;

 private:
  std::vector<Box> boxes_;
};

}  // namespace heddle::jit
