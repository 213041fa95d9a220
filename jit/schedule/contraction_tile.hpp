// A register tile of a contraction: sums that stay in vector registers while the terms stream past.
// Pure; any thread.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "jit/schedule/contraction.hpp"

namespace heddle::jit {

[[nodiscard]] Affine plus(const Affine& a, const Affine& b);
[[nodiscard]] Affine plus(const Affine& a, std::int64_t b);

/// The statements after the sum, with an element of `block` in place of the accumulator.
[[nodiscard]] Block after_sum(Scheduling& in, const Contraction& c,
                              const std::map<VarId, Affine>& where, LocalId block,
                              const std::vector<Affine>& at);

/// A block of terms, and the locations of its packed factors.
struct TermBlock {
  bool sums_in_target = false;  ///< the target holds the sums of earlier terms
  bool more_terms = false;      ///< more terms follow: the sum is stored without `after`
  Affine first;
  std::optional<std::int64_t> count;  ///< iterations of the outermost reduced loop; none: all
  std::optional<BufferId> a, b;       ///< scratch [tile, word, place in the tile]
  /// amount added by raising a: scratch [tile of b, place in the tile]
  std::optional<BufferId> added;
  Affine first_a{}, first_b{};  ///< in `a` and `b`: the tile of the first rows, of the first lanes
};

/// A tile along one side: its elements are block + inside + 0..count.
struct TileSide {
  Affine block, inside;
  std::int64_t count = 0;
  Affine number;  ///< index among the tiles of the block
};

/// Words of a block of terms along the outermost reduced loop, and the number of terms per word.
struct WordRange {
  std::int64_t first = 0, count = 0, terms = 1;
};

/// The reduced loops of a block of terms, with new variables, in words.
struct TermLoops {
  std::vector<VarId> vars;  ///< outermost first
  std::vector<std::int64_t> extents;
  std::map<VarId, Affine> at;  ///< the contraction's own variables, at the first term of a word
  Affine number;               ///< index of the word in the block
};

class TileBuilder {
 public:
  /// `by_copy`: the start of the sums, or the code after them, is not vector code. Such code works
  /// on a copy of the sums, so that the sums stay in registers.
  TileBuilder(Scheduling& in, const Contraction& c, const ContractionPlan& plan, bool by_copy)
      : in_(in), c_(c), plan_(plan), by_copy_(by_copy) {}

  /// A whole tile of sums, from start to store.
  [[nodiscard]] Block tile(const TermBlock& terms, const TileSide& row, const TileSide& lane);

  /// The loop variables of a contraction at an element of a tile.
  using Where = std::map<VarId, Affine>;
  [[nodiscard]] Where at(const TileSide& row, const Affine& r, const TileSide& lane,
                         const Affine& l) const;
  /// The element of a factor, or of the factor's copy.
  [[nodiscard]] ValuePtr factor_a(const TermBlock& terms, const Where& where, const TileSide& row,
                                  const Affine& term, const Affine& r) const;
  [[nodiscard]] ValuePtr factor_b(const TermBlock& terms, const Where& where, const TileSide& lane,
                                  const Affine& term, const Affine& l) const;

  [[nodiscard]] TermLoops term_loops(const TermBlock& terms, const WordRange& words);
  /// The full words, and a partial word for the remaining terms.
  [[nodiscard]] std::vector<WordRange> word_ranges(const TermBlock& terms) const;
  /// Loops around `body`, unrolled from the innermost outwards as long as there are at most
  /// `unrolled_max` copies of the body.
  [[nodiscard]] static Block around(const TermLoops& loops, Block body,
                                    std::int64_t unrolled_max = 0);

  [[nodiscard]] DType type() const { return c_.type; }
  [[nodiscard]] std::int64_t width() const { return in_.target.lanes(type()); }

  /// The blocks of sums made so far, which are meant to stay in registers.
  [[nodiscard]] const std::vector<LocalId>& sums() const { return sums_; }

 private:
  /// A block of sums: for all lanes of a tile, or for the lanes of a vector where sums are turned.
  struct Sums {
    LocalId block = 0;
    std::int64_t first = 0, count = 0;  ///< lanes of the tile
  };
  template <class Body>
  StmtPtr over_tile(const TileSide& row, const TileSide& lane, const std::vector<Sums>& sums,
                    const Body& body);
  template <class Body>
  StmtPtr over_tile(const TileSide& row, const TileSide& lane, const Body& body,
                    LoopMark mark = LoopMark::unroll);
  Block turned_tile(const TermBlock& terms, const TileSide& row, const TileSide& lane);
  StmtPtr move_block(LocalId from, LocalId to, const TileSide& row, const TileSide& lane);
  StmtPtr prefetch_target(const TileSide& row, const TileSide& lane);
  void prefetch_factors(Block& step, const TermBlock& terms, const TileSide& row,
                        const TileSide& lane, const Affine& term);
  StmtPtr take_off_added(const TermBlock& terms, const std::vector<Sums>& sums, const TileSide& row,
                         const TileSide& lane);
  Block sum_terms(const TermBlock& terms, const std::vector<Sums>& sums, const TileSide& row,
                  const TileSide& lane);
  StmtPtr store_turned(const TermBlock& terms, const Sums& sums, const TileSide& row,
                       const TileSide& lane);
  Block store(const TermBlock& terms, LocalId sum, LocalId copy, const TileSide& row,
              const TileSide& lane);
  Block after(const Where& where, LocalId block, const std::vector<Affine>& at);

  Scheduling& in_;
  const Contraction& c_;
  const ContractionPlan& plan_;
  const bool by_copy_;
  std::vector<LocalId> sums_;
};

}  // namespace heddle::jit
