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
[[nodiscard]] std::int64_t num_tiles(const std::vector<Segment>& tiles);

/// The largest divisor of `of` that is at most `most`; both are at least 1.
[[nodiscard]] std::int64_t largest_divisor(std::int64_t of, std::int64_t most);

/// Tiles of a block of elements, and the block.
struct TileGroup {
  Segment block;
  std::vector<Segment> tiles;
  std::int64_t first = 0;  ///< tiles before those of the first block
};
/// Blocks of at most `per_block` tiles, of about the same size.
[[nodiscard]] std::vector<TileGroup> grouped(const std::vector<Segment>& tiles,
                                             std::int64_t per_block);

}  // namespace heddle::jit
