// Shared by all emitters: symbols of a compiled unit, and the checks that a unit must pass before
// it is emitted. Pure functions; any thread.
//
// A unit exports unit_abi_symbol (a uint32_t, HEDDLE_KERNEL_ABI) and, per kernel, a function
// `heddle_run_NAME` of type heddle_kernel_function (kernel.h).
//
// Parts: if a kernel has parallel loops at its top level, part p of n runs the p-th slice of each
// of them; only part 0 runs the kernel's other assignments. Part 0 runs a kernel without such loops
// as a whole. A launcher that splits a kernel must know that its slices do not wait for one
// another.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "heddle/image.hpp"
#include "jit/emit/unit.hpp"

namespace heddle::jit {

/// The exported symbol of a kernel. The prefix keeps user names off C's keywords and library.
[[nodiscard]] std::string kernel_symbol(std::string_view kernel_name);

/// Comments before a kernel's text, beginning with `mark`: "kernel LABEL" and the kernel's symbol;
/// without a label, the kernel's name.
[[nodiscard]] std::string heading(const KernelSource& kernel, std::string_view mark);

/// Throws invalid_argument when a kernel's name is not [A-Za-z0-9_]+ or repeats, when there are
/// more addresses than buffers, or when a loop is missing.
void check_unit(const CompileUnit& unit);

/// Prefetched elements of a buffer, at constant distances from the first.
struct PrefetchGroup {
  BufferId buffer = 0;
  Prefetch next = Prefetch::load;
  Affine first;
  std::vector<std::int64_t> distances;  ///< elements, including 0 for the first
};
/// The groups of a prefetch, or of an unrolled loop of nothing but prefetches; otherwise none.
/// Emitters compute a group's first address once: compilers take long over many sums that differ by
/// a constant.
[[nodiscard]] std::vector<PrefetchGroup> prefetch_groups(const Loop& loop, const Stmt& stmt);

/// For each statement of the top level, the buffers that no earlier statement uses. Emitters take
/// the buffers' addresses there: with hundreds of addresses alive at once, GCC 12's register
/// allocation costs four times the rest of the kernel's compile.
[[nodiscard]] std::vector<std::vector<BufferId>> first_uses(const Loop& loop);

/// The third argument of __builtin_prefetch.
constexpr int locality(Prefetch next) noexcept { return next == Prefetch::load_later ? 2 : 3; }

/// The beginning of `text` as one line that is safe inside a C comment.
[[nodiscard]] std::string comment_text(std::string_view text);

/// True if the kernel has a parallel loop at its top level, so that its calls may be split.
[[nodiscard]] bool has_parallel_loops(const Loop& loop) noexcept;

/// The kernel's own plan, or else a plan made for `target`.
[[nodiscard]] std::shared_ptr<const LanePlan> lane_plan_of(const KernelSource& kernel,
                                                           const Target& target);

/// The address embedded for buffer k, if any.
[[nodiscard]] std::optional<std::uint64_t> embedded_address(const KernelSource& kernel,
                                                            std::size_t k) noexcept;

}  // namespace heddle::jit
