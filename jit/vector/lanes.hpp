// Decides which lanes loops run as vectors, and which local blocks live in vector variables.
// schedule() makes the plan and passes it to emitters; for a kernel that comes as text, the emitter
// makes the plan. Pure; any thread.
#pragma once

#include <optional>
#include <set>
#include <vector>

#include "jit/loop/loop.hpp"
#include "jit/value/primitives.hpp"
#include "jit/vector/target.hpp"

namespace heddle::jit {

struct LanePlan {
  /// Variables of lanes loops whose statements are all vector code. The other lanes loops are
  /// emitted as plain loops.
  std::set<VarId> vectors;
  /// Blocks that are only touched lane by lane in vector loops, at places known when emitted: a
  /// variable per row and vector. The other blocks are arrays.
  std::set<LocalId> in_registers;
  /// Turned (transposed) blocks: blocks of in_registers that are also read along their columns (the
  /// lanes loop subscripts the first of two axes). Their vectors are transposed first.
  std::set<LocalId> turned;
  /// True if a vector loop reads a column of a block: the column of the second subscript.
  [[nodiscard]] bool is_column(const Value& v, VarId lane) const {
    return v.kind == ValueKind::local && turned.contains(v.local) &&
           v.subscripts[0] == affine_var(lane);
  }
  friend bool operator==(const LanePlan&, const LanePlan&) = default;
};
/// The plan for a part of a kernel with these buffers.
[[nodiscard]] LanePlan plan_lanes(const std::vector<BufferDecl>& buffers, const Block& body,
                                  const Target& target);
[[nodiscard]] inline LanePlan plan_lanes(const Loop& loop, const Target& target) {
  return plan_lanes(loop.buffers, loop.body, target);
}

/// The function that an operation or a conversion applies in each lane.
[[nodiscard]] const PrimFunction& lane_function(const Value& v, const Target& target);

/// is_half_cast: a conversion between f16 and f32. is_widened_load: a conversion to f32 of a
/// buffer's element of 8 or 16 bits. Vector code loads such elements only by these conversions: f32
/// would not keep all bits of a NaN that is copied. is_bool_load: the byte of a bool as f32, which
/// need not be 0 or 1, compared with 0.
/// is_index: an index as i64 or i32, whose lanes are sums of the first lane's and of constants.
[[nodiscard]] bool is_half_cast(const Value& v);
[[nodiscard]] bool is_widened_load(const Value& v);
[[nodiscard]] bool is_bool_load(const Value& v);
[[nodiscard]] bool is_index(const Value& v);
[[nodiscard]] bool uses_half(const Block& body);

/// True if the value is equal in every lane: it contains neither `lane` nor any of `lane_locals`.
[[nodiscard]] bool is_uniform(const Value& value, VarId lane, const std::set<LocalId>& lane_locals);

/// A part of a lanes loop that fits a vector: `count` lanes from lane `first` on.
struct LanePart {
  std::int64_t first = 0;
  std::int64_t count = 0;
  bool whole = false;    ///< count equals the vector's lanes
  bool changed = false;  ///< the loop loads and stores elements of the buffer
};
/// True if the part is loaded and stored as two elements and one: three changed elements of 4
/// bytes, with AVX-512. A load would wait for the end of a masked store to a neighbouring element.
[[nodiscard]] inline bool in_pieces(const LanePart& part, DType type, const Target& target) {
  return part.changed && part.count == 3 && size_of(type) == 4 && target.isa >= Isa::avx512;
}
/// The parts of `extent` lanes in vectors of `width`; only the last part may be partial.
[[nodiscard]] std::vector<LanePart> lane_parts(std::int64_t extent, std::int64_t width);

/// An access to one column of rows of a few elements, a row for each lane, as x[i, 1] of points
/// f32[N, 3]. With AVX-512, whole vectors of rows are loaded and stored, and permuted.
struct RowAccess {
  std::int64_t columns = 0, column = 0;
  Affine row;  ///< the first lane's row begins there, in elements of the array
};
/// The access, if the lanes move along rows of two to four elements, from the lane `lane` = 0 on.
[[nodiscard]] std::optional<RowAccess> row_access(const ArrayType& type,
                                                  const std::vector<Affine>& at, VarId lane,
                                                  const Target& target);
/// The number of statements, from `k` on, that store a row of each lane, column by column, and do
/// not read its array; 0 where they do anything else.
[[nodiscard]] std::size_t stores_of_rows(const std::vector<BufferDecl>& buffers, const Block& body,
                                         std::size_t k, VarId lane, const Target& target);

/// The type of the first lanes value in a vector loop's statements; all other values have its size,
/// or are bool. None: all values are bools.
[[nodiscard]] std::optional<DType> lane_type(const Block& body);

/// The affine index without the variable `lane`, and the variable's coefficient.
[[nodiscard]] std::pair<Affine, std::int64_t> split_lane(const Affine& index, VarId lane);
/// Distance in elements between a buffer's elements of consecutive iterations.
[[nodiscard]] std::int64_t stride(const Loop& loop, BufferId buffer, const std::vector<Affine>& at,
                                  VarId var);

/// The body of an unrolled loop at an iteration.
[[nodiscard]] Block unrolled(const Stmt& loop, std::int64_t iteration);

}  // namespace heddle::jit
