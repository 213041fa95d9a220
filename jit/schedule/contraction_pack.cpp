// See contraction_pack.hpp.
#include "jit/schedule/contraction_pack.hpp"

#include <optional>
#include <utility>
#include <vector>

#include "jit/loop/rewrite.hpp"
#include "jit/schedule/transpose.hpp"
#include "jit/schedule/words.hpp"

namespace heddle::jit {
namespace {

StmtPtr store_to(const ValuePtr& place, ValuePtr value) {
  return make_store(place->buffer, place->subscripts, std::move(value));
}

}  // namespace

Block each_tile(Fresh& fresh, const std::vector<Segment>& segments, const SegmentBody& body,
                bool always_loops) {
  Block result;
  Affine first;  // number of the segment's first tile
  for (const Segment& segment : segments) {
    if (segment.count == 1 && !always_loops) {
      append(result, body(Affine{segment.offset, {}}, segment.size, first));
    } else {
      const VarId var = fresh.var();
      const Affine base = plus(affine_var(var, segment.size), segment.offset);
      result.push_back(
          make_loop(var, 0, segment.count, body(base, segment.size, plus(affine_var(var), first))));
    }
    first.constant += segment.count;
  }
  return result;
}

Block Packer::b(const TermBlock& terms, const Affine& first, const std::vector<Segment>& tiles) {
  const auto one = [&](const TileSide& lane, const TermLoops& term, const WordRange& words,
                       const Affine& l) {
    auto where = tiles_.at({}, {}, lane, l);
    where.insert(term.at.begin(), term.at.end());
    return store_to(tiles_.factor_b(terms, where, lane, term.number, l),
                    element(c_.b, where, words));
  };
  Block packed = pack(terms, first, tiles, c_.b_is_contiguous, one);
  if (terms.added) append(packed, add_raised_terms(terms, first, tiles));
  return packed;
}

Block Packer::a(const TermBlock& terms, const Affine& first, const std::vector<Segment>& tiles) {
  const ValuePtr factor = raised(plan_.words, c_.a);
  const auto one = [&](const TileSide& row, const TermLoops& term, const WordRange& words,
                       const Affine& r) {
    auto where = tiles_.at(row, r, {}, {});
    where.insert(term.at.begin(), term.at.end());
    return store_to(tiles_.factor_a(terms, where, row, term.number, r),
                    element(factor, where, words));
  };
  return pack(terms, first, tiles, c_.rows_are_contiguous, one);
}

/// A factor, or a word of its values at consecutive terms.
ValuePtr Packer::element(const ValuePtr& factor, TileBuilder::Where where,
                         const WordRange& words) const {
  std::vector<ValuePtr> values;
  Affine& term = where.at(c_.reduced[0]->var);
  const Affine first = term;
  for (std::int64_t n = 0; n < words.terms; ++n) {
    term = plus(first, n);
    values.push_back(substitute(factor, {where, {}, {}, {}, {}}));
  }
  return word_of(plan_.words, values);
}

template <class Element>
Block Packer::pack(const TermBlock& terms, const Affine& first, const std::vector<Segment>& tiles,
                   bool contiguous, const Element& element) {
  Block packed;
  for (const WordRange& words : tiles_.word_ranges(terms)) {
    append(packed, contiguous ? along_tiles(terms, words, first, tiles, element)
                              : tile_by_tile(terms, words, first, tiles, element));
  }
  return packed;
}

/// Copies along whole rows of the source, where rows are contiguous: lines are read once.
template <class Element>
Block Packer::along_tiles(const TermBlock& terms, const WordRange& words, const Affine& first,
                          const std::vector<Segment>& tiles, const Element& element) {
  const TermLoops term = tiles_.term_loops(terms, words);
  const SegmentBody row = [&](const Affine& inside, std::int64_t count, const Affine& number) {
    const VarId place = in_.fresh.var();
    const StmtPtr one = element({first, inside, count, number}, term, words, affine_var(place));
    return Block{make_loop(place, 0, count, {one}, LoopMark::lanes)};
  };
  return tiles_.around(term, each_tile(in_.fresh, tiles, row));
}

template <class Element>
Block Packer::tile_by_tile(const TermBlock& terms, const WordRange& words, const Affine& first,
                           const std::vector<Segment>& tiles, const Element& element) {
  const SegmentBody tile = [&](const Affine& inside, std::int64_t count, const Affine& number) {
    const TermLoops term = tiles_.term_loops(terms, words);
    const auto copied = [&](LoopMark mark) {
      const VarId place = in_.fresh.var();
      const StmtPtr one = element({first, inside, count, number}, term, words, affine_var(place));
      return tiles_.around(term, {make_loop(place, 0, count, {one}, mark)});
    };
    const Block plain = copied(LoopMark::serial);
    if (plain.size() == 1) {
      if (std::optional<Block> turned = schedule_transpose(in_, plain.front())) return *turned;
    }
    return copied(LoopMark::unroll);
  };
  return each_tile(in_.fresh, tiles, tile);
}

/// The amount that raising a by a constant adds to the sums of each lane.
Block Packer::add_raised_terms(const TermBlock& terms, const Affine& first,
                               const std::vector<Segment>& tiles) {
  const SegmentBody tile = [&](const Affine& inside, std::int64_t count, const Affine& number) {
    const TileSide lane{first, inside, count, number};
    const auto over_lanes = [&](const auto& value) {
      const VarId l = in_.fresh.var();
      const ValuePtr added =
          make_load(*terms.added, tiles_.type(), {plus(terms.first_b, number), affine_var(l)});
      return make_loop(l, 0, count, {store_to(added, value(added, affine_var(l)))},
                       LoopMark::lanes);
    };
    Block block{over_lanes([&](const ValuePtr&, const Affine&) {
      return make_constant(Scalar::of_int(tiles_.type(), 0));
    })};
    for (const WordRange& words : tiles_.word_ranges(terms)) {
      const TermLoops term = tiles_.term_loops(terms, words);
      append(block, tiles_.around(term, {over_lanes([&](const ValuePtr& added, const Affine& l) {
                                    return add_raised(
                                        tiles_.factor_b(terms, {}, lane, term.number, l), added);
                                  })}));
    }
    return block;
  };
  return each_tile(in_.fresh, tiles, tile);
}

}  // namespace heddle::jit
