// Which lanes loops run as vectors, and which local blocks live in vector variables. schedule()
// decides it and hands it on to emitters; the emitter decides for a kernel that comes as text.
// Pure; any thread.
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
  /// Blocks that are only touched lane by lane in vector loops, at places known when emitted: one
  /// variable per row and vector. The others are arrays.
  std::set<LocalId> in_registers;
  /// Those that are also read along their columns (the lanes loop subscripts the first of two
  /// axes): their vectors are transposed first.
  std::set<LocalId> turned;
  /// Whether a vector loop reads a column: of a block, that which the second subscript names.
  [[nodiscard]] bool is_column(const Value& v, VarId lane) const {
    return v.kind == ValueKind::local && turned.contains(v.local) &&
           v.subscripts[0] == affine_var(lane);
  }
  friend bool operator==(const LanePlan&, const LanePlan&) = default;
};
/// The plan of a part of a kernel that has these buffers.
[[nodiscard]] LanePlan plan_lanes(const std::vector<BufferDecl>& buffers, const Block& body,
                                  const Target& target);
[[nodiscard]] inline LanePlan plan_lanes(const Loop& loop, const Target& target) {
  return plan_lanes(loop.buffers, loop.body, target);
}

/// What an operation or a conversion does in each lane.
[[nodiscard]] const PrimFunction& lane_function(const Value& v, const Target& target);

/// A conversion between f16 and f32; one to f32 of an element of a buffer, of f16 or bf16. In
/// vector code, elements of f16 are only loaded so: f32 would not keep all bits of a NaN that is
/// copied.
[[nodiscard]] bool is_half_cast(const Value& v);
[[nodiscard]] bool is_half_load(const Value& v);
[[nodiscard]] bool uses_half(const Block& body);

/// The same in every lane: neither `lane` nor any of `lane_locals` is in it.
[[nodiscard]] bool is_uniform(const Value& value, VarId lane, const std::set<LocalId>& lane_locals);

/// A vector of the pieces that a lanes loop is cut into: `count` lanes from lane `first` on.
struct LanePart {
  std::int64_t first = 0;
  std::int64_t count = 0;
  bool whole = false;  ///< count is the vector's
};
/// The parts of `extent` lanes in vectors of `width`; only the last one may not be whole.
[[nodiscard]] std::vector<LanePart> lane_parts(std::int64_t extent, std::int64_t width);

/// What the statements of a vector loop work on first, in lanes; the rest has its size, or is bool.
/// None: there is nothing but bools.
[[nodiscard]] std::optional<DType> lane_type(const Block& body);

/// The affine index without its loop variable, and that one's coefficient.
[[nodiscard]] std::pair<Affine, std::int64_t> split_lane(const Affine& index, VarId lane);
/// Elements from one iteration's element of a buffer to that of the next.
[[nodiscard]] std::int64_t stride(const Loop& loop, BufferId buffer, const std::vector<Affine>& at,
                                  VarId var);

/// The body of an unrolled loop at one of its iterations.
[[nodiscard]] Block unrolled(const Stmt& loop, std::int64_t iteration);

}  // namespace heddle::jit
