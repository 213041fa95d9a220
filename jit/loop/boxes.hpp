// Boxes of elements: which of a buffer's are written, where stores cover parts of it. Values; one
// thread each.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "heddle/types.hpp"
#include "jit/loop/interval.hpp"

namespace heddle::jit {

/// All elements whose subscripts lie in these intervals, axis by axis.
using Box = std::vector<Interval>;

/// Whether sums of steps, each taken 0 to count - 1 times, leave out no number between the least
/// and the greatest. `steps`: their sizes and counts; sizes and counts are 1 or more.
[[nodiscard]] bool is_dense(std::vector<std::pair<Int128, std::int64_t>> steps);

/// What of a buffer has been written: boxes that do not meet; of those that adjoin, two that make
/// up a box are one. On the safe side: of boxes that meet in part, and of very many, some are left
/// out.
class Cover {
 public:
  void add(Box box);
  [[nodiscard]] bool is_empty() const noexcept { return boxes_.empty(); }
  [[nodiscard]] bool contains(const Box& box) const;
  /// Whether that is every element of such a buffer.
  [[nodiscard]] bool is_whole(const Dims& dims) const;

 private:
  std::vector<Box> boxes_;
};

}  // namespace heddle::jit
