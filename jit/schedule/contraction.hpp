// Contractions: sums of products over a nest, such as matrix products and convolutions. Defines a
// contraction and its division into tiles. Pure; any thread.
#pragma once

#include <optional>
#include <vector>

#include "heddle/code.hpp"
#include "jit/loop/loop.hpp"
#include "jit/schedule/scheduling.hpp"
#include "jit/vector/target.hpp"

namespace heddle::jit {

/// kept { let acc = start; reduced { acc = acc + a * b }; after }. `a` does not change with the
/// variable of `lane`, along which the sums are vectors; `b` does not change with `row`, where
/// there is a row loop. Each factor is a value made of loads and indices. The result is contiguous
/// along `lane`, or along `row` if `across` is set.
struct Contraction {
  /// The type of the sums. Integers of 8 and 16 bits are summed in 32 bits; the low bits are equal.
  DType type = DType::f32;
  std::vector<StmtPtr> kept;     ///< loops, outermost first
  std::vector<StmtPtr> reduced;  ///< loops
  LocalId accumulator = 0;
  ValuePtr start;
  ValuePtr a, b;
  Block after;                       ///< straight-line code that stores the sum
  StmtPtr store;                     ///< the store in `after`
  StmtPtr lane;                      ///< an element of `kept`
  StmtPtr row;                       ///< an element of `kept`; null for a vector times a matrix
  bool across = false;               ///< sums are turned (transposed) before they are stored
  bool b_is_contiguous = false;      ///< along `lane`
  bool a_is_contiguous = false;      ///< along the innermost reduced loop
  bool rows_are_contiguous = false;  ///< a is contiguous along `row`
  /// The target can hold sums between two blocks of terms: its former content is only the start
  /// value.
  bool target_holds_sums = false;
  /// The kept loops besides lane and row along which b changes (moving_b) or stays the same
  /// (sharing_b); outermost first.
  std::vector<StmtPtr> moving_b, sharing_b;
  /// True if a factor is more than a load. A computed factor is computed once, when it is copied to
  /// scratch.
  [[nodiscard]] bool is_computed() const;
  /// Number of terms of the loops inside the outermost reduced loop.
  [[nodiscard]] std::int64_t inner_terms() const;
};
/// Recognises a contraction. `across`: uses the other loop as lanes.
[[nodiscard]] std::optional<Contraction> find_contraction(const Loop& loop, const StmtPtr& nest,
                                                          bool across = false);

/// Rows and vectors of results that are computed together in registers.
struct RegisterTile {
  std::int64_t rows = 1;
  std::int64_t vectors = 1;
};
struct TileChoice {
  RegisterTile tile;
  double time = 0;  ///< estimate for all sums, in half cycles
};
/// The tile with the least estimated time: steps of the inner loop are bounded by multiply-adds, by
/// loads and by the latency of a chain of sums.
[[nodiscard]] TileChoice choose_tile(std::int64_t rows, std::int64_t lanes, std::int64_t depth,
                                     DType type, const Target& target);

/// How terms are packed into words, see words.hpp.
struct Words {
  DType type = DType::i32;  ///< type of a word; without words, of the sums
  /// Terms per word. 1: no words. 2: i16, or bf16 where the sums are f32. 4: u8 and i8.
  std::int64_t terms = 1;
  bool b_unsigned = false;  ///< with four terms, the u8 terms are those of b
  /// With four terms, the u8 terms are those of a, raised by 128: the excess is subtracted from the
  /// sums later.
  bool a_raised = false;
};

/// The outermost blocks, where lanes of b, rows and terms are cut.
enum class Outermost : std::uint8_t {
  terms,
  lanes,  ///< a, if it is copied, is copied whole beforehand
  rows,   ///< b, if it is copied, is copied whole beforehand
};

/// The decisions about a contraction. Extents in elements.
struct ContractionPlan {
  RegisterTile tile;
  /// Terms summed before the next block of rows: all terms, or those of some iterations of the
  /// outermost reduced loop.
  std::int64_t depth = 0;
  std::int64_t rows = 0;   ///< rows of a kept in the second-level cache
  std::int64_t lanes = 0;  ///< lanes of b packed at a time
  bool prefetch = false;   ///< fetch the lines of a tile before storing to them
  /// Enough work for several processors: blocks become loops of the top level, and each copies the
  /// data that it needs.
  bool spread = false;
  Outermost outermost = Outermost::terms;
  Words words{};  ///< of both factors, which are then copied
  // Copied to scratch, as tiles in the order of their use:
  bool pack_a = false;  ///< the block of a
  bool pack_b = false;  ///< the block of b
  double time = 0;      ///< estimate, in half cycles
};
[[nodiscard]] ContractionPlan plan_contraction(const Scheduling& in, const Contraction& c);
/// Returns nothing, and leaves no scratch, where sums would have to be turned in memory.
[[nodiscard]] std::optional<Block> build_contraction(Scheduling& in, const Contraction& c,
                                                     const ContractionPlan& plan);

/// Schedules a nest that is a contraction.
[[nodiscard]] std::optional<Block> schedule_contraction(Scheduling& in, const StmtPtr& nest);
/// Throws invalid_argument where the user's tile is not a valid tile, or exceeds the registers.
void check_tile(const ContractionTile& tile, const Target& target);
/// Vector registers for the sums and a row of b: a tile needs `vectors` registers per row, and
/// `vectors` more for the row of b.
[[nodiscard]] std::int64_t tile_registers(const Target& target);

}  // namespace heddle::jit
