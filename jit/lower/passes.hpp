// The passes of optimize(), each a pure function from kernel to kernel (or to facts about it). Any
// thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "jit/loop/kernel_uses.hpp"
#include "jit/lower/lower.hpp"

namespace heddle::jit {

/// What tracing saw of one buffer. What is read before it is written, or never written, is read off
/// all iterations by read_interface() instead.
struct Traced {
  /// Reads of the most read cell, those of statements that assign the buffer left out.
  std::int64_t visits_max = 0;
  /// A constant expression: one statement assigns it, from constants and constant buffers alone.
  bool constant = false;
};
/// Interprets the loops symbolically: the first `iterations` of each, static indices as 0.
[[nodiscard]] std::vector<Traced> trace(const Loop& loop, int iterations);

/// One of the statements that assign a buffer, seen from a single element of it: what is left when
/// the loops over the buffer's axes are taken away.
struct DefinitionPart {
  /// Per axis the loop variable that was its subscript; none for an axis of one element, or where
  /// the element does not matter.
  std::vector<std::optional<VarId>> axes;
  /// Holds one store to the buffer, and reads of it at that store's subscripts alone.
  Block body;
};
/// How an element can be computed where it is read: the parts, one after another.
struct Definition {
  std::vector<DefinitionPart> parts;
  std::vector<KernelUses::Position> positions;  ///< where the parts' statements are
};
/// The definition of a buffer, or why it cannot be recomputed: a numbered cause.
struct Inlinable {
  std::optional<Definition> definition;
  std::string refusal;
};
[[nodiscard]] Inlinable find_definition(const KernelUses& uses, BufferId buffer);

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
/// Replaces reads of virtual tensors by their definitions. What cannot be recomputed becomes local,
/// unless the user asked for virtual: then throws invalid_argument with the numbered cause.
[[nodiscard]] Lowered inline_virtual(Lowered lowered);
/// Folds constants and identities; drops empty loops, unrolls single iterations, joins locals.
/// Exact unless fast_math.
[[nodiscard]] Lowered simplify(Lowered lowered, bool fast_math);
/// The same for one value: constants, identities, conversions that cancel.
[[nodiscard]] ValuePtr simplify_value(const ValuePtr& value, bool fast_math);
/// Drops what no output depends on: stores to scratch that nobody reads, locals, loops left empty.
[[nodiscard]] Lowered drop_dead(Lowered lowered);
/// Numbers everything by first appearance, sets roles, drops scratch that is not used any more.
[[nodiscard]] Lowered renumber(Lowered lowered);

}  // namespace heddle::jit
