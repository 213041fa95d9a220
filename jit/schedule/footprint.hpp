// The accesses of a loop to buffers, as distances from its iterations. Pure; any thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>

#include "jit/loop/loop.hpp"

namespace heddle::jit {

/// The subscripts of accesses on an axis, as distances from the loop's variable.
struct Distances {
  std::int64_t lowest = 0, highest = 0;

  explicit Distances(std::int64_t one) : lowest(one), highest(one), each_{one}, count_(1) {}
  void add(const Distances& other);
  /// True if every iteration has an element of the axis for itself.
  [[nodiscard]] bool are_one() const { return lowest == highest; }
  /// True if no element is touched in two of `extent` iterations, as where a loop over one half of
  /// an axis touches both halves.
  [[nodiscard]] bool are_apart(std::int64_t extent) const;
  /// True if some distance is known to be one of both.
  [[nodiscard]] bool meet(const Distances& other) const;

 private:
  [[nodiscard]] std::span<const std::int64_t> each() const { return {each_.data(), count_}; }

  std::array<std::int64_t, 4> each_{};
  std::size_t count_ = 0;  ///< 0: more distances, which can be all from the lowest to the highest
};

/// The reads and the writes of a buffer on an axis; at least one of them.
struct AxisUse {
  std::optional<Distances> reads, writes;
  void add(const AxisUse& other);
  [[nodiscard]] Distances all() const;
};

/// The accesses to a buffer.
struct FootprintPart {
  bool written = false;
  bool whole = false;  ///< zeroed
  /// The axes that all accesses subscript by the loop's variable and a constant; none if the buffer
  /// is only zeroed.
  std::optional<std::map<std::size_t, AxisUse>> own_axes;
  void add(const FootprintPart& other);
};
using Footprint = std::map<BufferId, FootprintPart>;

[[nodiscard]] Footprint footprint(const Stmt& loop);

/// True if one of the loop's `extent` iterations may touch what another iteration writes.
[[nodiscard]] bool carries(const Footprint& touched, std::int64_t extent);
/// True if, on the axis, no iteration of the second loop conflicts with a later iteration of the
/// first.
[[nodiscard]] bool follows(const AxisUse& first, const AxisUse& second);

/// True if the loop runs over single elements, not over rows.
[[nodiscard]] bool is_innermost(const Stmt& loop);

}  // namespace heddle::jit
