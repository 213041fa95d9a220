// The memory plan of a code's scratch: entries that are not alive at once share bytes. Pure; any
// thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "jit/code/core.hpp"

namespace heddle::jit {

/// Bytes in use from one place of a code to a later place, both included.
struct Lifetime {
  std::size_t bytes = 0;
  std::size_t first = 0, last = 0;
  [[nodiscard]] bool meets(const Lifetime& other) const noexcept {
    return first <= other.last && other.first <= last;
  }
};

/// Lifetimes that meet get separate bytes. Greedy: the largest first, each as low as it fits
/// (Pisarchyk and Lee, "Efficient Memory Management for Deep Neural Net Inference", 2020). Where
/// the result exceeds the bytes alive at once, the topmost entry is moved to the front of the
/// order, repeatedly up to a limit on comparisons (squeaky wheels: Joslin and Clements, 1999). Two
/// more orders follow. The longest lived first: each placed at either end of a block as large as
/// the bytes alive at once. The largest product of bytes and places first: each as low as it fits,
/// and at either end of blocks 1, 1.05 and 1.1 times as large as the bytes alive at once. The best
/// plan is returned.
[[nodiscard]] MemoryPlan pack(std::span<const Lifetime> lifetimes);
/// The most bytes that are alive at one place, a lower bound of every plan.
[[nodiscard]] std::size_t most_alive(std::span<const Lifetime> lifetimes);

/// Places a kernel's private entries, of which each processor that runs parts has a copy.
void plan_own_scratch(const Loop& kernel, KernelStep& step);

/// The first and last use of each entry. Places are the steps, and within a kernel the top-level
/// statements, except in kernels that run in parts or in groups. Unused entries have no bytes.
[[nodiscard]] std::vector<Lifetime> lifetimes_of(const Signature& signature,
                                                 std::span<const Step> steps);

/// Offsets for the entries of role scratch; the offset of other entries is 0. Scratch entries of
/// one kernel may overlap: kernels are compiled without the assumption that entries are disjoint. A
/// compiler therefore keeps a load before the store of a later statement. In kernels whose
/// statements may run at once, entries in use do not overlap.
[[nodiscard]] MemoryPlan plan_scratch(const Signature& signature, std::span<const Step> steps);

}  // namespace heddle::jit
