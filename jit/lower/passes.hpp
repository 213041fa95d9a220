// The passes of optimize(), each a pure function from kernel to kernel (or to facts about it). Any
// thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "jit/loop/boxes.hpp"
#include "jit/loop/kernel_uses.hpp"
#include "jit/lower/lower.hpp"

namespace heddle::jit {

/// Result of tracing for a buffer. read_interface() finds buffers that are read before they are
/// written, or never written, from all iterations.
struct Traced {
  /// Reads of the most read element, without reads by statements that assign the buffer.
  std::int64_t visits_max = 0;
  /// A constant expression: a single statement assigns the buffer, from constants and constant
  /// buffers only.
  bool constant = false;
};
/// Interprets the loops symbolically: the first `iterations` of each, static indices as 0.
[[nodiscard]] std::vector<Traced> trace(const Loop& loop, int iterations);

/// A statement that assigns a buffer, seen from a single element: the statement without the loops
/// over the buffer's axes.
struct DefinitionPart {
  /// Per axis the loop variable of its subscript; none for an axis of one element, or where the
  /// element does not matter.
  std::vector<std::optional<VarId>> axes;
  /// Holds a single store to the buffer, and reads of the buffer only at the store's subscripts.
  Block body;
};
/// The computation of an element where it is read: the parts, in order.
struct Definition {
  std::vector<DefinitionPart> parts;
  std::vector<KernelUses::Position> positions;  ///< positions of the parts' statements
};
/// The definition of a buffer, or the numbered reason why it cannot be recomputed.
struct Inlinable {
  std::optional<Definition> definition;
  std::string refusal;
};
[[nodiscard]] Inlinable find_definition(const KernelUses& uses, BufferId buffer);

/// A statement that assigns a box of elements of a buffer, one by one, and reads none of them.
struct Piece {
  Box box;
  DefinitionPart part;                ///< declarations, then the store
  std::vector<std::int64_t> offsets;  ///< per axis: the element's subscript less the loop variable
};
/// A buffer that is assigned in disjoint boxes, before it is read.
struct Pieces {
  std::vector<Piece> pieces;
  std::vector<KernelUses::Position> positions;  ///< positions of the pieces' statements
};
/// The pieces of a buffer, if they may be recomputed where they are read; none: at most one
/// statement, or more than 32 assign the buffer, or pieces overlap or have loops of their own.
[[nodiscard]] std::optional<Pieces> find_pieces(const KernelUses& uses, BufferId buffer);

/// The buffers of tensors that are not merge buffers.
class TensorBuffers {
 public:
  explicit TensorBuffers(const Lowered& lowered);
  [[nodiscard]] BufferId operator[](const Tensor& tensor) const;

 private:
  std::unordered_map<std::uint64_t, BufferId> ids_;  // by Tensor::id()
};

/// Decides where each tensor lives: fills Lowered::placements. `virtual_` is a proposal that
/// inline_virtual() settles. Throws invalid_argument when a user's request cannot be met, naming
/// tensor, request and reason.
[[nodiscard]] Lowered infer_placements(Lowered lowered, const OptimizeOptions& options);
/// Replaces reads of virtual tensors by their definitions. A tensor that cannot be recomputed
/// becomes local, unless the user asked for virtual: then throws invalid_argument with the numbered
/// reason.
[[nodiscard]] Lowered inline_virtual(Lowered lowered);
/// Folds constants and identities; drops empty loops, unrolls single iterations, joins locals.
/// Exact unless fast_math.
[[nodiscard]] Lowered simplify(Lowered lowered, bool fast_math);
/// Simplifies a single value: constants, identities, conversions that cancel.
[[nodiscard]] ValuePtr simplify_value(const ValuePtr& value, bool fast_math);
/// Removes code on which no output depends: stores to scratch without reads, locals, empty loops.
[[nodiscard]] Lowered drop_dead(Lowered lowered);
/// Numbers everything by first appearance, sets roles, drops unused scratch.
[[nodiscard]] Lowered renumber(Lowered lowered);

}  // namespace heddle::jit
