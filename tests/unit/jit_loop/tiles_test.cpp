// Tiles, and the targets that they are chosen for.
#include <gtest/gtest.h>

#include <cstdint>
#include <optional>

#include "jit/schedule/contraction.hpp"
#include "jit/schedule/tiles.hpp"
#include "support/random_contraction.hpp"

namespace heddle::jit::testing {
namespace {

// J5: the tiles of an extent cover it, once
TEST(TilesTest, SegmentsCoverTheirExtent) {
  for (std::int64_t extent = 1; extent < 100; ++extent) {
    for (std::int64_t size = 1; size < 20; ++size) {
      for (const auto& segments : {balanced_tiles(extent, size), whole_tiles(extent, size)}) {
        std::int64_t next = 0;
        for (const Segment& segment : segments) {
          EXPECT_EQ(segment.offset, next);
          EXPECT_GT(segment.count, 0);
          EXPECT_LE(segment.size, size);
          next += segment.count * segment.size;
        }
        EXPECT_EQ(next, extent);
      }
      const auto balanced = balanced_tiles(extent, size);
      EXPECT_LE(balanced.front().size - balanced.back().size, 1);
    }
  }
}

// J9: the register tile uses the registers there are, and fits small results
TEST(TilesTest, RegisterTilesFit) {
  for (const Isa isa :
       {Isa::portable, Isa::avx2, Isa::avx512, Isa::avx512_vnni, Isa::avx512_bf16}) {
    const Target target = tiny_target(isa);
    for (const std::int64_t n : {1, 3, 16, 100, 1024}) {
      const RegisterTile tile = choose_tile(n, n, n, f32, target).tile;
      EXPECT_LT(tile.rows * tile.vectors + tile.vectors, target.vector_registers());
      EXPECT_GE(tile.rows, 1);
    }
    const RegisterTile large = choose_tile(1024, 1024, 1024, f32, target).tile;
    EXPECT_GE(large.rows * large.vectors, target.vector_registers() / 2);
  }
}

// J5: a target has a text, which is part of what identifies compiled code
TEST(TargetTest, TextRoundTrips) {
  const Target target = tiny_target(Isa::avx2);
  EXPECT_EQ(target.to_string(), "avx2 1024 4096 16384");
  EXPECT_EQ(Target::parse(target.to_string()), target);
  EXPECT_EQ(Target::parse("avx2 1024 4096"), std::nullopt);
  EXPECT_EQ(Target::parse("mmx 1 2 3"), std::nullopt);
  EXPECT_NE(native_target().isa, Isa::none);
}

}  // namespace
}  // namespace heddle::jit::testing
