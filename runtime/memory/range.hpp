// Ranges of bytes, kinds of use, and the test for a conflict of two uses. Values; any thread.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace heddle::rt {

enum class Use : std::uint8_t {
  read,
  change,     ///< writes some bytes, and may read some
  overwrite,  ///< writes every byte before reading it
  replace,    ///< reads or changes some bytes first, and afterwards writes every byte
};

[[nodiscard]] constexpr bool writes(Use use) noexcept { return use != Use::read; }

/// True if a use that succeeds leaves only new values in the bytes.
[[nodiscard]] constexpr bool leaves_new(Use use) noexcept {
  return use == Use::overwrite || use == Use::replace;
}

/// A range of bytes of a memory.
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

/// True if the later use has to wait for the earlier one: both touch a byte, and at least one use
/// writes.
[[nodiscard]] constexpr bool conflict(const Range& earlier, bool earlier_writes, const Range& later,
                                      bool later_writes) noexcept {
  return (earlier_writes || later_writes) && earlier.overlaps(later);
}

/// The ranges without the bytes of `removed`. Throws std::bad_alloc.
[[nodiscard]] std::vector<Range> without(std::span<const Range> ranges, const Range& removed);

}  // namespace heddle::rt
