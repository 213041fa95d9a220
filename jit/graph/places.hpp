// NodePlaces: the places of an array that a statement reads or writes, affine in the statement's
// indices, and the effect of layout operations on places. Pure; one thread.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "heddle/expr.hpp"
#include "jit/graph/nodes.hpp"

namespace heddle::jit {

/// constant + sum of coefficient * index; coefficients are never 0.
struct NodePlace {
  std::int64_t constant = 0;
  std::vector<std::pair<std::uint32_t, std::int64_t>> terms;  ///< (index, coefficient), rising
  friend auto operator<=>(const NodePlace&, const NodePlace&) = default;
};
using NodePlaces = std::vector<NodePlace>;  ///< one for each axis

[[nodiscard]] NodePlace add(const NodePlace& a, const NodePlace& b, std::int64_t factor = 1);
[[nodiscard]] NodePlace scale(const NodePlace& a, std::int64_t factor);

/// The indices of a statement: each axis is a number of digits, the highest digit first. An axis
/// begins as one digit, and is cut where a reshape needs a finer one.
class Digits {
 public:
  explicit Digits(const Dims& extents);

  [[nodiscard]] std::size_t size() const noexcept { return extents_.size(); }
  [[nodiscard]] std::int64_t extent(std::uint32_t index) const { return extents_[index]; }
  /// The place along each axis, in terms of the digits.
  [[nodiscard]] NodePlaces places() const;
  /// Cuts a digit in two; the lower digit has `low` values. `low` must be a proper divisor of the
  /// extent.
  void cut(std::uint32_t index, std::int64_t low);

 private:
  std::vector<std::int64_t> extents_;
  std::vector<std::size_t> axes_;  // of each digit
  std::size_t rank_;
};

/// A required cut of a digit, see Digits::cut().
struct Cut {
  std::uint32_t index;
  std::int64_t low;
};
/// No cut of the indices makes the place affine.
struct NotAffine {};

/// The row-major position of the element at `places` of an array of `dims`.
[[nodiscard]] NodePlace row_major(const NodePlaces& places, const Dims& dims);

/// The places, in an array of `from`, of the element at `places` of an array of `to`. Both arrays
/// have the same elements in row-major order, at least one.
[[nodiscard]] std::variant<NodePlaces, Cut, NotAffine> reshaped(const NodePlaces& places,
                                                                const Dims& to, const Dims& from,
                                                                const Digits& digits);

}  // namespace heddle::jit
