// The sums that statements take in from definitions of virtual tensors. A statement takes in a sum
// only if the sum keeps the schedule of a statement of its own. One thread.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "jit/loop/kernel_uses.hpp"
#include "jit/lower/passes.hpp"

namespace heddle::jit {

/// The sums (reductions by any operation) of one element.
struct Sums {
  std::size_t count = 0;
  /// Each sum reads a separate row of memory: reading bounds the time, and every place gives vector
  /// code. A sum that shares data with sums of other elements, or reads across rows, needs separate
  /// loops.
  bool read_along_memory = true;
};

/// Records the sums of the statements of a kernel, while placements are decided in program order.
class TakenSums {
 public:
  /// `uses` must outlive the object.
  explicit TakenSums(const KernelUses& uses) : uses_(uses) {}

  /// True if all readers of the buffer may take in the definition of an element. Sums of rows of
  /// memory fit beside each other. Any other sum fits alone, and only into a statement that
  /// computes element by element: the schedule of the sum computes the rest in registers. A
  /// transpose fits into a statement of the same kind, and makes a transpose of the statement.
  /// Everything else fits anywhere.
  [[nodiscard]] bool fit(BufferId buffer, const Definition& definition) const;
  /// Records that the readers of the buffer take the definition in.
  void take(BufferId buffer, const Definition& definition);

 private:
  /// The directions in which a body reads matrices: along the axis of its stores, or across.
  struct Directions {
    bool along = false, across = false;
  };
  /// `loops`: of the body; `last`: the variable along which it stores. Ignores loads of `without`.
  [[nodiscard]] Directions directions(const Block& body, const std::vector<VarId>& loops,
                                      std::optional<VarId> last,
                                      std::optional<BufferId> without) const;
  [[nodiscard]] Directions directions(const Definition& definition) const;
  /// The sums of a definition, with the sums that the defining statements have taken in.
  [[nodiscard]] Sums of(const Definition& definition) const;

  const KernelUses& uses_;
  std::map<KernelUses::Position, Sums> taken_;
  std::set<BufferId> turned_;  ///< virtual buffers of transposes
};

}  // namespace heddle::jit
