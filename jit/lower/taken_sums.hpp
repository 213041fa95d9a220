// Which sums a statement may take in from the definitions of what it reads: those that keep, there,
// the schedule that they have alone. One thread.
#pragma once

#include <cstddef>
#include <map>

#include "jit/loop/kernel_uses.hpp"
#include "jit/lower/passes.hpp"

namespace heddle::jit {

/// Sums (reductions by any operation) that an element needs.
struct Sums {
  std::size_t count = 0;
  /// Each sum reads a row of memory of its own, hence reading bounds its time, and the sum becomes
  /// vector code wherever it stands. Any other sum reads data that other elements read too, or
  /// reads across rows, and needs loops of its own.
  bool read_along_memory = true;
};

/// The sums that the statements of a kernel take in while the placements of its tensors are
/// decided, in program order.
class TakenSums {
 public:
  /// `uses` must outlive the object.
  explicit TakenSums(const KernelUses& uses) : uses_(uses) {}

  /// The sums of a definition, those that its statements have taken in included.
  [[nodiscard]] Sums of(const Definition& definition) const;
  /// True if all readers of the buffer may take in the sums of its elements: sums of rows of memory
  /// beside each other; any other sum alone, in a statement that computes element by element, where
  /// the sum's schedule computes in registers what follows the sum.
  [[nodiscard]] bool fit(BufferId buffer, const Sums& sums) const;
  /// Notes that the readers of the buffer take in the sums of its elements.
  void take(BufferId buffer, const Sums& sums);

 private:
  const KernelUses& uses_;
  std::map<KernelUses::Position, Sums> taken_;
};

}  // namespace heddle::jit
