// From a Program to loop form, and then to the optimised kernel: the first three stages of the
// flow. Pure functions of their arguments; any thread.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "heddle/program.hpp"
#include "jit/describe/wishes.hpp"
#include "jit/loop/loop.hpp"
#include "jit/loop/signature.hpp"
#include "jit/loop/verify.hpp"
#include "jit/vector/lanes.hpp"

namespace heddle::jit {

/// The final placement of a tensor of the program, and its reason.
struct Placement {
  MemoryMode mode = MemoryMode::unset;
  std::string provenance;  ///< "file:line" of the user's request, or the deciding inference
  MemoryMode asked = MemoryMode::unset;  ///< the user's request, as lowering found it
};

/// A kernel with the meaning of its numbers. loop.buffers[k] is tensors[k].
struct Lowered {
  std::string name;
  Loop loop;
  /// `loop` as the last stage (optimize() or schedule()) left it.
  VerifiedLoop verified;
  /// The vector plan for the scheduled target; null before schedule().
  std::shared_ptr<const LanePlan> lanes;
  std::vector<Tensor> tensors;       ///< per buffer; the merge buffer's entry is the merge tensor
  std::vector<StaticIndex> statics;  ///< per Loop::statics
  /// Every tensor of the program (virtual tensors too) and its mode after inference, in program
  /// order.
  std::vector<std::pair<Tensor, Placement>> placements;
  /// The interface of the lowered loop, later of the optimised loop. A schedule keeps the
  /// interface: accesses of tiled loops are harder to analyse, and equivalent.
  Interface interface;
};

struct OptimizeOptions {
  bool fast_math = false;      ///< allow x*0=0, reassociation and the like (NaN/Inf carelessness)
  int max_visits = 1;          ///< elements read more often than this are not inlined
  int max_tracing_dim = 5;     ///< tracing runs one iteration more of each loop
  bool inline_virtual = true;  ///< false: virtual tensors are stored like local tensors
};

/// Statements to loops, a nest for each statement; every tensor is still a buffer. Throws
/// invalid_argument where two static indices share a subscript and one of them has no range.
///
/// For the order of execution see heddle/program.hpp. `wishes` belong to Program::tensors(), in the
/// same order.
[[nodiscard]] Lowered lower(const Program& program, std::span<const Wish> wishes);
/// lower() with the program's current wishes.
[[nodiscard]] inline Lowered lower(const Program& program) {
  return lower(program, wishes_of(program));
}

/// Called with the name of each pass that changed the kernel, and the kernel after the pass.
using PassObserver = std::function<void(std::string_view pass, const Lowered&)>;

/// Tracing and memory-mode inference, virtual-node inlining, simplification; verified behind each
/// pass that changed the kernel. Virtual tensors vanish, local tensors become scratch, everything
/// is renumbered by first appearance.
[[nodiscard]] Lowered optimize(Lowered lowered, const OptimizeOptions& options = {},
                               const PassObserver& observer = {});

/// The signature of an optimised kernel, scheduled or not: its interface, with the current types
/// and scratch, and the placements of its tensors.
[[nodiscard]] Signature make_signature(const Lowered& lowered);

}  // namespace heddle::jit
