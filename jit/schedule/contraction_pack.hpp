// Copies of the factors of a contraction: tile after tile, in the order of their use, in words
// where the plan has words. Pure; any thread.
#pragma once

#include <functional>
#include <vector>

#include "jit/schedule/contraction.hpp"
#include "jit/schedule/contraction_tile.hpp"
#include "jit/schedule/tiles.hpp"

namespace heddle::jit {

/// Makes the body of a loop over segments, from a segment's first element, its size and its number.
using SegmentBody =
    std::function<Block(const Affine& base, std::int64_t size, const Affine& number)>;
/// A loop over the tiles of each segment; a single tile has a loop only with `always_loops`.
[[nodiscard]] Block each_tile(Fresh& fresh, const std::vector<Segment>& segments,
                              const SegmentBody& body, bool always_loops = false);

class Packer {
 public:
  Packer(Scheduling& in, const Contraction& c, const ContractionPlan& plan, TileBuilder& tiles)
      : in_(in), c_(c), plan_(plan), tiles_(tiles) {}

  /// Copies a block of terms for the rows, or lanes, of `tiles` from `first` on.
  [[nodiscard]] Block a(const TermBlock& terms, const Affine& first,
                        const std::vector<Segment>& tiles);
  [[nodiscard]] Block b(const TermBlock& terms, const Affine& first,
                        const std::vector<Segment>& tiles);

 private:
  template <class Element>
  Block pack(const TermBlock& terms, const Affine& first, const std::vector<Segment>& tiles,
             bool contiguous, const Element& element);
  template <class Element>
  Block along_tiles(const TermBlock& terms, const WordRange& words, const Affine& first,
                    const std::vector<Segment>& tiles, const Element& element);
  template <class Element>
  Block tile_by_tile(const TermBlock& terms, const WordRange& words, const Affine& first,
                     const std::vector<Segment>& tiles, const Element& element);
  [[nodiscard]] ValuePtr element(const ValuePtr& factor, TileBuilder::Where where,
                                 const WordRange& words) const;
  Block add_raised_terms(const TermBlock& terms, const Affine& first,
                         const std::vector<Segment>& tiles);

  Scheduling& in_;
  const Contraction& c_;
  const ContractionPlan& plan_;
  TileBuilder& tiles_;
};

}  // namespace heddle::jit
