// Interface: what a kernel's loops do to its buffers and ask of its static indices. Pure; any
// thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "jit/loop/loop.hpp"

namespace heddle::jit {

/// The part of a buffer that one run of the kernel touches, where that is not all of it: the bytes
/// from `begin` to `end`, each moved by the sum of the static indices times their steps.
struct Slice {
  std::int64_t begin = 0, end = 0;
  std::vector<std::int64_t> steps;  ///< bytes; one for each static index of the kernel
  /// Every element in it is written before any is read.
  bool overwritten = false;
  friend bool operator==(const Slice&, const Slice&) = default;

  /// `statics`: in their bounds, one for each step.
  [[nodiscard]] std::pair<std::size_t, std::size_t> at(
      std::span<const std::int64_t> statics) const noexcept {
    std::uint64_t moved = 0;  // what overflows on the way comes back: the sum lies in the buffer
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
  /// Every element is written before any is read, whatever the statics: needs no zero fill (D2).
  bool overwrites_whole = false;
  /// For axes subscripted by a static index: none of the fields above depends on its value.
  std::optional<Slice> slice;  ///< none: any of it may be touched
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
  /// Per static index: its declared range intersected with what the subscripts allow on their own.
  std::vector<StaticBounds> statics;
};

[[nodiscard]] Interface read_interface(const Loop& loop);

}  // namespace heddle::jit
