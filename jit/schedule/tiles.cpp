// See schedule/tiles.hpp.
#include "jit/schedule/tiles.hpp"

namespace heddle::jit {

std::vector<Segment> balanced_tiles(std::int64_t extent, std::int64_t size) {
  const std::int64_t tiles = (extent + size - 1) / size;
  const std::int64_t large = (extent + tiles - 1) / tiles;
  const std::int64_t small = tiles * large - extent;  // number of tiles that are shorter by one
  std::vector<Segment> segments{{0, tiles - small, large}};
  if (small > 0) segments.push_back({(tiles - small) * large, small, large - 1});
  return segments;
}

std::vector<Segment> whole_tiles(std::int64_t extent, std::int64_t size) {
  std::vector<Segment> segments;
  const std::int64_t whole = extent / size;
  if (whole > 0) segments.push_back({0, whole, size});
  if (extent % size > 0) segments.push_back({whole * size, 1, extent % size});
  return segments;
}

std::int64_t num_tiles(const std::vector<Segment>& tiles) {
  std::int64_t count = 0;
  for (const Segment& tile : tiles) count += tile.count;
  return count;
}

std::vector<TileGroup> grouped(const std::vector<Segment>& tiles, std::int64_t per_block) {
  const std::int64_t extent = tiles.back().offset + tiles.back().count * tiles.back().size;
  if (num_tiles(tiles) <= per_block) return {{{0, 1, extent}, tiles}};
  std::vector<TileGroup> blocks;
  std::int64_t first = 0;
  for (const Segment& tile : tiles) {
    for (const Segment& group : balanced_tiles(tile.count, per_block)) {
      blocks.push_back(
          {{tile.offset + group.offset * tile.size, group.count, group.size * tile.size},
           {{0, group.size, tile.size}},
           first + group.offset});
    }
    first += tile.count;
  }
  return blocks;
}

std::int64_t largest_divisor(std::int64_t of, std::int64_t most) {
  std::int64_t found = std::min(of, most);
  while (of % found != 0) --found;
  return found;
}

}  // namespace heddle::jit
