// Copies of the factors of a contraction: tile after tile, in the order of their use, in words
// where the plan says so. Pure; any thread.
#pragma once

#include <functional>
#include <vector>

#include "jit/schedule/contraction.hpp"
#include "jit/schedule/contraction_tile.hpp"
#include "jit/schedule/tiles.hpp"

namespace heddle::jit {

/// What is inside of loops over segments: where it begins, how long it is, and its number.
using SegmentBody =
    std::function<Block(const Affine& base, std::int64_t size, const Affine& number)>;
/// A loop over each segment's tiles; none around a single one, unless it is wanted.
[[nodiscard]] Block each_tile(Fresh& fresh, const std::vector<Segment>& segments,
                              const SegmentBody& body, bool always_loops = false);

class Packer {
 public:
  Packer(Scheduling& in, const Contraction& c, const ContractionPlan& plan, TileBuilder& tiles)
      : in_(in), c_(c), plan_(plan), tiles_(tiles) {}

  /// A block of terms of the rows, or lanes, of `tiles` from `first` on.
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
