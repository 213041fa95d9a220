// Where the scratch of a code lies: entries that are not alive at once share bytes. Pure; any
// thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "jit/code/core.hpp"

namespace heddle::jit {

/// Bytes that hold something from one place of a code on to another, both included.
struct Lifetime {
  std::size_t bytes = 0;
  std::size_t first = 0, last = 0;
  [[nodiscard]] bool meets(const Lifetime& other) const noexcept {
    return first <= other.last && other.first <= last;
  }
};

/// Lifetimes that meet have bytes of their own. Greedy: the largest first, each as low as it fits
/// (Pisarchyk and Lee, "Efficient Memory Management for Deep Neural Net Inference", 2020). Where
/// that takes more than is alive at once, what lies at the top is placed first, again and again for
/// a while (squeaky wheels: Joslin and Clements, 1999); then the same with the longest lived first,
/// at either end of as many bytes as are alive at once, and with the most bytes times places first,
/// at either end of as many or some more. The best plan is taken.
[[nodiscard]] MemoryPlan pack(std::span<const Lifetime> lifetimes);
/// No plan has less: the most bytes that are alive at one place.
[[nodiscard]] std::size_t most_alive(std::span<const Lifetime> lifetimes);

/// Places for what each processor that runs parts of a kernel has its own of.
void plan_own_scratch(const Loop& kernel, KernelStep& step);

/// From where on to where each entry is used: the places are the steps, and the statements of the
/// top level of kernels, but for those that run in parts or in groups. Those that no step uses have
/// no bytes.
[[nodiscard]] std::vector<Lifetime> lifetimes_of(const Signature& signature,
                                                 std::span<const Step> steps);

/// For each entry of a signature, those of role scratch alone: others have offset 0. A kernel may
/// be given scratch that overlaps: nothing that compiles kernels is told that entries are apart, so
/// what a statement loads is loaded before a later one stores, where they do not run at once.
[[nodiscard]] MemoryPlan plan_scratch(const Signature& signature, std::span<const Step> steps);

}  // namespace heddle::jit
