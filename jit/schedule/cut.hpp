// Divides a scheduled kernel into several: compilers take long over large functions, and several
// compilers may work in parallel. Pure; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "jit/loop/loop.hpp"
#include "jit/schedule/parallel.hpp"

namespace heddle::jit {

/// A kernel of a program: some of the statements of the program's top level.
struct KernelPart {
  Loop loop;                           ///< numbered by first appearance
  std::vector<std::uint32_t> entries;  ///< the program's buffers in `loop`, in the order of `loop`
  std::vector<std::uint32_t> statics;  ///< the program's statics in `loop`; ascending
};

/// For cut_kernels(): the kernel stays whole, however large.
inline constexpr std::size_t uncut = std::numeric_limits<std::size_t>::max();

/// Kernels that, run in order, do the same as `loop`, bit for bit.
/// - Repeated ranges of statements become separate kernels with the same text.
/// - A kernel is cut where it would otherwise have more than `nodes_max` values and statements
///   (unrolled loops count as often as they are emitted), or more local blocks than a stack holds.
/// - Cuts lie between statements of the top level where no local is alive, and not between a
///   prefetch and the statement that it is for.
/// - Parallel loops are cut from statements that conflict with them, as parts of a kernel do not
///   wait for each other, and from scalars that conflict with other statements, as all parts
///   compute them; where no cut is possible, the loops lose their parallel marks.
///
/// A kernel that stays whole keeps all buffers and statics of `loop`, used or not.
[[nodiscard]] std::vector<KernelPart> cut_kernels(const Loop& loop, std::size_t nodes_max,
                                                  ScratchOf scratch = ScratchOf::each_part);

/// The number of nodes of a kernel, as cut_kernels() counts them.
[[nodiscard]] std::size_t nodes_of(const Loop& loop);

}  // namespace heddle::jit
