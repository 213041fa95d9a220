// NodePlaces: where in an array a statement reads or writes, affine in the statement's indices.
// What layout operations do to them. Pure; one thread.
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

/// constant + sum of coefficient * index; none with coefficient 0.
struct NodePlace {
  std::int64_t constant = 0;
  std::vector<std::pair<std::uint32_t, std::int64_t>> terms;  ///< (index, coefficient), rising
  friend auto operator<=>(const NodePlace&, const NodePlace&) = default;
};
using NodePlaces = std::vector<NodePlace>;  ///< one for each axis

[[nodiscard]] NodePlace add(const NodePlace& a, const NodePlace& b, std::int64_t factor = 1);
[[nodiscard]] NodePlace scale(const NodePlace& a, std::int64_t factor);

/// The indices that a statement runs over: each axis as a number of digits, the first the highest.
/// An axis begins as one digit, and is cut where a reshape needs it.
class Digits {
 public:
  explicit Digits(const Dims& extents);

  [[nodiscard]] std::size_t size() const noexcept { return extents_.size(); }
  [[nodiscard]] std::int64_t extent(std::uint32_t index) const { return extents_[index]; }
  /// Of each axis, as the digits give it.
  [[nodiscard]] NodePlaces places() const;
  /// Cuts a digit in two, of which the lower has `low` values: a divisor of its own.
  void cut(std::uint32_t index, std::int64_t low);

 private:
  std::vector<std::int64_t> extents_;
  std::vector<std::size_t> axes_;  // of each digit
  std::size_t rank_;
};

/// A digit that has to be cut, see Digits::cut().
struct Cut {
  std::uint32_t index;
  std::int64_t low;
};
/// No place is affine in the indices, however they are cut.
struct NotAffine {};

/// The place in row-major order of the element at `places` of an array of `dims`.
[[nodiscard]] NodePlace row_major(const NodePlaces& places, const Dims& dims);

/// Where in an array of `from` the element lies that is at `places` of an array of `to`, which has
/// as many elements, one at least, in the same row-major order.
[[nodiscard]] std::variant<NodePlaces, Cut, NotAffine> reshaped(const NodePlaces& places,
                                                                const Dims& to, const Dims& from,
                                                                const Digits& digits);

}  // namespace heddle::jit
