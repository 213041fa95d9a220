// Uses of bytes of a memory, and which of two has to come after the other. Values; any thread.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace heddle::rt {

enum class Use : std::uint8_t {
  read,
  change,     ///< writes some of it, or reads it too
  overwrite,  ///< writes all of it before it reads any
  replace,    ///< reads some of it, or changes it, and writes all of it after that
};

[[nodiscard]] constexpr bool writes(Use use) noexcept { return use != Use::read; }

/// Whether nothing that the bytes held before is left or missing where it ends well.
[[nodiscard]] constexpr bool leaves_new(Use use) noexcept {
  return use == Use::overwrite || use == Use::replace;
}

/// Bytes of a memory.
struct Range {
  std::size_t begin = 0, end = 0;
  [[nodiscard]] constexpr bool overlaps(const Range& other) const noexcept {
    return std::max(begin, other.begin) < std::min(end, other.end);
  }
  [[nodiscard]] constexpr bool covers(const Range& other) const noexcept {
    return begin <= other.begin && other.end <= end;
  }
  friend bool operator==(const Range&, const Range&) = default;
};

/// Whether the later of two uses has to come after the earlier one: both touch a byte that one of
/// them writes.
[[nodiscard]] constexpr bool conflict(const Range& earlier, bool earlier_writes, const Range& later,
                                      bool later_writes) noexcept {
  return (earlier_writes || later_writes) && earlier.overlaps(later);
}

/// Of those bytes all but `removed`. Throws std::bad_alloc.
[[nodiscard]] std::vector<Range> without(std::span<const Range> ranges, const Range& removed);

}  // namespace heddle::rt
