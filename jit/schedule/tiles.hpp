// Cuts extents into tiles. Pure; any thread.
#pragma once

#include <cstdint>
#include <vector>

namespace heddle::jit {

/// A range of tiles of an extent: `count` tiles of `size` elements from `offset` on.
struct Segment {
  std::int64_t offset = 0;
  std::int64_t count = 0;
  std::int64_t size = 0;
  friend bool operator==(const Segment&, const Segment&) = default;
};
/// The fewest possible tiles of at most `size`, whose sizes differ by at most one.
[[nodiscard]] std::vector<Segment> balanced_tiles(std::int64_t extent, std::int64_t size);
/// Whole tiles, and a smaller one for the rest.
[[nodiscard]] std::vector<Segment> whole_tiles(std::int64_t extent, std::int64_t size);
[[nodiscard]] std::int64_t num_tiles(const std::vector<Segment>& tiles);

/// The largest divisor of `of` that is at most `most`; both are at least 1.
[[nodiscard]] std::int64_t largest_divisor(std::int64_t of, std::int64_t most);

/// Tiles of a block of elements, and the block.
struct TileGroup {
  Segment block;
  std::vector<Segment> tiles;
  std::int64_t first = 0;  ///< number of tiles before the first block
};
/// Blocks of at most `per_block` tiles, of about the same size.
[[nodiscard]] std::vector<TileGroup> grouped(const std::vector<Segment>& tiles,
                                             std::int64_t per_block);

}  // namespace heddle::jit
