// Contractions: sums of products over a nest, such as matrix products and convolutions. What one
// is, and how it is cut into tiles. Pure; any thread.
#pragma once

#include <optional>
#include <vector>

#include "jit/loop.hpp"
#include "jit/schedule.hpp"
#include "jit/target.hpp"

namespace heddle::jit {

/// kept { let acc = start; reduced { acc = acc + a * b }; after }. `a` is the same for all values
/// of the variable `lane`, along which the result is contiguous; `b` for all of `row`, where there
/// is one. Each is a value of loads and indices.
struct Contraction {
  /// Of the sums. Integers of 8 and 16 bits are summed in 32 bits: the low ones are the same.
  DType type = DType::f32;
  std::vector<StmtPtr> kept;     ///< loops, outermost first
  std::vector<StmtPtr> reduced;  ///< loops
  LocalId accumulator = 0;
  ValuePtr start;
  ValuePtr a, b;
  Block after;                       ///< straight-line code that stores the sum
  StmtPtr store;                     ///< the one in `after`
  StmtPtr lane;                      ///< of kept
  StmtPtr row;                       ///< of kept; null for a vector times a matrix
  bool b_is_contiguous = false;      ///< along lane
  bool a_is_contiguous = false;      ///< along the innermost reduced loop
  bool rows_are_contiguous = false;  ///< a, along row
  /// The target can hold sums between two blocks of terms: what it held before is but their start.
  bool target_holds_sums = false;
  /// A factor is more than a load: done once, where it is copied to scratch.
  [[nodiscard]] bool is_computed() const;
};
[[nodiscard]] std::optional<Contraction> find_contraction(const Loop& loop, const StmtPtr& nest);

/// How many rows and vectors of results are computed at once, in registers.
struct RegisterTile {
  std::int64_t rows = 1;
  std::int64_t vectors = 1;
};
/// The one with the least estimated time: steps of the inner loop are bounded by multiply-adds, by
/// loads and by the latency of a chain of sums.
[[nodiscard]] RegisterTile choose_tile(std::int64_t rows, std::int64_t lanes, std::int64_t depth,
                                       DType type, const Target& target);

/// What is decided about a contraction. Extents in elements.
struct ContractionPlan {
  RegisterTile tile;
  std::int64_t depth = 0;  ///< terms summed before the next block of rows: all, or a part of them
  std::int64_t rows = 0;   ///< of a, kept in the second-level cache
  std::int64_t lanes = 0;  ///< of b, packed at a time
  bool prefetch = false;   ///< fetch the lines of a tile before it is stored
  // Copied to scratch, as tiles one after another in the order of their use:
  bool pack_a = false;  ///< the block of a
  bool pack_b = false;  ///< the block of b
  /// How far ahead of their use terms of copies are fetched: measured, from 12 on all the same.
  static constexpr std::int64_t terms_ahead = 16;
};
[[nodiscard]] ContractionPlan plan_contraction(const Contraction& c, const Target& target);
[[nodiscard]] Block build_contraction(Scheduling& in, const Contraction& c,
                                      const ContractionPlan& plan);

}  // namespace heddle::jit
