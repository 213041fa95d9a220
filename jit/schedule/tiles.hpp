// Extents cut into tiles. Pure; any thread.
#pragma once

#include <cstdint>
#include <vector>

namespace heddle::jit {

/// How an extent is cut into tiles: `count` of `size` elements from `offset` on.
struct Segment {
  std::int64_t offset = 0;
  std::int64_t count = 0;
  std::int64_t size = 0;
  friend bool operator==(const Segment&, const Segment&) = default;
};
/// As few tiles of at most `size` as there can be, their sizes differing by one at most.
[[nodiscard]] std::vector<Segment> balanced_tiles(std::int64_t extent, std::int64_t size);
/// Whole tiles, and a smaller one for the rest.
[[nodiscard]] std::vector<Segment> whole_tiles(std::int64_t extent, std::int64_t size);

}  // namespace heddle::jit
