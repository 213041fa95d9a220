// Cutting a scheduled kernel into several: compilers take long over large functions, and several
// may work at once. Pure; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "jit/loop/loop.hpp"
#include "jit/schedule/parallel.hpp"

namespace heddle::jit {

/// A kernel of a program: some of the statements of its top level.
struct KernelPart {
  Loop loop;                           ///< numbered by first appearance
  std::vector<std::uint32_t> entries;  ///< the program's buffers that `loop` has, in its order
  std::vector<std::uint32_t> statics;  ///< the same; ascending
};

/// For cut_kernels(): a kernel that stays whole, however large.
inline constexpr std::size_t uncut = std::numeric_limits<std::size_t>::max();

/// Kernels that, one after the other, do what `loop` does, bit for bit. They are cut around what is
/// repeated, so that its kernels have one text, and where otherwise one would have more than
/// `nodes_max` values and statements, those of unrolled loops counted as often as they are emitted,
/// or more local blocks than a stack holds: between statements of the top level, where no local is
/// alive, and not behind what only fetches for the next. Besides, between parallel loops and what
/// meets them, as parts of a kernel do not wait for each other: their marks go where that cannot
/// be. A kernel that stays whole keeps all that `loop` has, used or not.
[[nodiscard]] std::vector<KernelPart> cut_kernels(const Loop& loop, std::size_t nodes_max,
                                                  ScratchOf scratch = ScratchOf::each_part);

/// The nodes of a kernel, as cut_kernels() counts them.
[[nodiscard]] std::size_t nodes_of(const Loop& loop);

}  // namespace heddle::jit
