// Interface: what a kernel's loops do to its buffers and ask of its static indices. Pure; any
// thread.
#pragma once

#include <cstdint>
#include <vector>

#include "jit/loop/loop.hpp"

namespace heddle::jit {

struct BufferAccess {
  Role role = Role::input;
  bool reads = false;
  bool writes = false;
  bool reads_before_writing = false;
  /// Every element is written before any is read, whatever the statics: needs no zero fill (D2).
  bool overwrites_whole = false;
  /// For axes subscripted by a static index: none of the fields above depends on its value.
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
