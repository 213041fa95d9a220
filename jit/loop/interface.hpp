// Interface: how a kernel's loops access its buffers, and the bounds of its static indices. Pure;
// any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "jit/loop/loop.hpp"

namespace heddle::jit {

/// The part of a buffer that a run of the kernel touches, where it is not the whole: the bytes from
/// `begin` to `end`, both moved by the sum of the static indices times their steps.
struct Slice {
  std::int64_t begin = 0, end = 0;
  std::vector<std::int64_t> steps;  ///< bytes; an entry for each static index of the kernel
  /// True if every element of the slice is written before any is read.
  bool overwritten = false;
  friend bool operator==(const Slice&, const Slice&) = default;

  /// `statics`: values within their bounds, as many as steps.
  [[nodiscard]] std::pair<std::size_t, std::size_t> at(
      std::span<const std::int64_t> statics) const noexcept {
    std::uint64_t moved = 0;  // wraps on the way; the final sum lies in the buffer
    for (std::size_t k = 0; k < steps.size(); ++k)
      moved += static_cast<std::uint64_t>(steps[k]) * static_cast<std::uint64_t>(statics[k]);
    return {static_cast<std::uint64_t>(begin) + moved, static_cast<std::uint64_t>(end) + moved};
  }
};

struct BufferAccess {
  Role role = Role::input;
  bool reads = false;
  bool writes = false;
  bool reads_before_writing = false;
  /// Every element is written before any is read, for all values of the statics: needs no zero fill
  /// (D2).
  bool overwrites_whole = false;
  /// For axes subscripted by a static index: the fields above do not depend on its value.
  std::optional<Slice> slice;  ///< none: any element may be touched
  friend bool operator==(const BufferAccess&, const BufferAccess&) = default;
};

/// Bounds that a static index must keep so that every subscript stays in range: [lowest, highest].
struct StaticBounds {
  std::int64_t lowest = 0;
  std::int64_t highest = 0;  ///< inclusive; lowest > highest: no value fits
  friend bool operator==(const StaticBounds&, const StaticBounds&) = default;
};

struct Interface {
  std::vector<BufferAccess> buffers;  ///< per Loop::buffers
  /// Per static index: the declared range intersected with the values that the subscripts allow.
  std::vector<StaticBounds> statics;
};

[[nodiscard]] Interface read_interface(const Loop& loop);

}  // namespace heddle::jit
