// Contractions: sums of products over a nest, such as matrix products and convolutions. What one
// is, and how it is cut into tiles. Pure; any thread.
#pragma once

#include <optional>
#include <vector>

#include "heddle/code.hpp"
#include "jit/loop/loop.hpp"
#include "jit/schedule/scheduling.hpp"
#include "jit/vector/target.hpp"

namespace heddle::jit {

/// kept { let acc = start; reduced { acc = acc + a * b }; after }. `a` is the same for all values
/// of the variable `lane`, along which the sums are vectors; `b` for all of `row`, where there is
/// one. Each is a value of loads and indices. The result is contiguous along `lane`, or along `row`
/// if it is `across`.
struct Contraction {
  /// The type of the sums. Integers of 8 and 16 bits are summed in 32 bits: the low ones are the
  /// same.
  DType type = DType::f32;
  std::vector<StmtPtr> kept;     ///< loops, outermost first
  std::vector<StmtPtr> reduced;  ///< loops
  LocalId accumulator = 0;
  ValuePtr start;
  ValuePtr a, b;
  Block after;                       ///< straight-line code that stores the sum
  StmtPtr store;                     ///< the one in `after`
  StmtPtr lane;                      ///< one of `kept`
  StmtPtr row;                       ///< one of `kept`; null for a vector times a matrix
  bool across = false;               ///< sums are turned before they are stored
  bool b_is_contiguous = false;      ///< along lane
  bool a_is_contiguous = false;      ///< along the innermost reduced loop
  bool rows_are_contiguous = false;  ///< a, along row
  /// The target can hold sums between two blocks of terms: what it held before is but their start.
  bool target_holds_sums = false;
  /// The kept loops besides lane and row along which b changes, or stays; outermost first.
  std::vector<StmtPtr> moving_b, sharing_b;
  /// A factor is more than a load: done once, where it is copied to scratch.
  [[nodiscard]] bool is_computed() const;
  /// Terms of the loops inside the outermost reduced one.
  [[nodiscard]] std::int64_t inner_terms() const;
};
/// `across`: with the other loop as lanes.
[[nodiscard]] std::optional<Contraction> find_contraction(const Loop& loop, const StmtPtr& nest,
                                                          bool across = false);

/// How many rows and vectors of results are computed at once, in registers.
struct RegisterTile {
  std::int64_t rows = 1;
  std::int64_t vectors = 1;
};
struct TileChoice {
  RegisterTile tile;
  double time = 0;  ///< that all sums take, estimated, in half cycles
};
/// The one with the least time: steps of the inner loop are bounded by multiply-adds, by loads and
/// by the latency of a chain of sums.
[[nodiscard]] TileChoice choose_tile(std::int64_t rows, std::int64_t lanes, std::int64_t depth,
                                     DType type, const Target& target);

/// How terms lie in words, see words.hpp.
struct Words {
  DType type = DType::i32;  ///< of a word; where there are none, of the sums
  /// In each: 1, then they are no words; 2 of i16, or of bf16 where sums are f32; 4 of u8 and i8.
  std::int64_t terms = 1;
  bool b_unsigned = false;  ///< of four terms, those of b are the u8
  /// Of four terms, the u8 are those of a, 128 more than they should be: what that adds is taken
  /// off again.
  bool a_raised = false;
};

/// Which blocks are outermost, where those of b's lanes, of rows and of terms are cut.
enum class Outermost : std::uint8_t {
  terms,
  lanes,  ///< a, where it is copied, is copied whole before them
  rows,   ///< b, likewise
};

/// What is decided about a contraction. Extents in elements.
struct ContractionPlan {
  RegisterTile tile;
  /// Terms summed before the next block of rows: all, or those of some iterations of the outermost
  /// reduced loop.
  std::int64_t depth = 0;
  std::int64_t rows = 0;   ///< a's, kept in the second-level cache
  std::int64_t lanes = 0;  ///< b's, packed at a time
  bool prefetch = false;   ///< fetch the lines of a tile before it is stored
  /// It is work for several processors: blocks are loops of the top level, each with what it needs.
  bool spread = false;
  Outermost outermost = Outermost::terms;
  Words words{};  ///< of both factors, then copied
  // Copied to scratch, as tiles one after another in the order of their use:
  bool pack_a = false;  ///< the block of a
  bool pack_b = false;  ///< the block of b
  double time = 0;      ///< estimated, in half cycles
};
[[nodiscard]] ContractionPlan plan_contraction(const Scheduling& in, const Contraction& c);
/// Nothing, and no scratch, where sums would have to be turned in memory.
[[nodiscard]] std::optional<Block> build_contraction(Scheduling& in, const Contraction& c,
                                                     const ContractionPlan& plan);

/// A nest that is a contraction.
[[nodiscard]] std::optional<Block> schedule_contraction(Scheduling& in, const StmtPtr& nest);
/// Throws invalid_argument where a tile that the user asked for is none, or exceeds the registers.
void check_tile(const ContractionTile& tile, const Target& target);
/// Vector registers for sums and a row of b: a tile has `vectors` of them for each of its rows, and
/// for that one.
[[nodiscard]] std::int64_t tile_registers(const Target& target);

}  // namespace heddle::jit
