// See schedule/tiles.hpp.
#include "jit/schedule/tiles.hpp"

namespace heddle::jit {

std::vector<Segment> balanced_tiles(std::int64_t extent, std::int64_t size) {
  const std::int64_t tiles = (extent + size - 1) / size;
  const std::int64_t large = (extent + tiles - 1) / tiles;
  const std::int64_t small = tiles * large - extent;  // tiles that are one shorter
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

}  // namespace heddle::jit
