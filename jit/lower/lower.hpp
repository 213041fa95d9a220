// From a Program to loop form, and from there to the optimised kernel: the first three stages of
// the flow. Pure functions of their arguments; any thread.
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

/// How a tensor of the program was finally placed, and why.
struct Placement {
  MemoryMode mode = MemoryMode::unset;
  std::string provenance;  ///< "file:line" of the user's request, or the inference that decided
  MemoryMode asked = MemoryMode::unset;  ///< the user's request, as lowering found it
};

/// A kernel together with what its numbers stand for. loop.buffers[k] is tensors[k].
struct Lowered {
  std::string name;
  Loop loop;
  /// `loop` as the last stage left it: of optimize() and schedule().
  VerifiedLoop verified;
  /// How it runs on the target that it was scheduled for; null before.
  std::shared_ptr<const LanePlan> lanes;
  std::vector<Tensor> tensors;       ///< per buffer; the merge buffer's entry is the merge tensor
  std::vector<StaticIndex> statics;  ///< per Loop::statics
  /// Every tensor of the program (virtual ones too) and its mode after inference, in program order.
  std::vector<std::pair<Tensor, Placement>> placements;
  /// The interface of the loop as it was lowered, then as it was optimised. A schedule keeps it:
  /// what tiled loops do to a buffer is harder to see, and the same.
  Interface interface;
};

struct OptimizeOptions {
  bool fast_math = false;      ///< allow x*0=0, reassociation and the like (NaN/Inf carelessness)
  int max_visits = 1;          ///< cells read more often than this are not inlined
  int max_tracing_dim = 5;     ///< tracing looks at one iteration more of each loop
  bool inline_virtual = true;  ///< false: virtual tensors are stored like local ones
};

/// Statements to loops, one nest each; every tensor is a buffer still. Throws invalid_argument
/// where two static indices share a subscript and one has no range.
///
/// In which order they run: heddle/program.hpp. `wishes` are of Program::tensors(), in that order.
[[nodiscard]] Lowered lower(const Program& program, std::span<const Wish> wishes);
/// With the wishes of now.
[[nodiscard]] inline Lowered lower(const Program& program) {
  return lower(program, wishes_of(program));
}

/// Called with the name of each pass that changed something and the kernel after it.
using PassObserver = std::function<void(std::string_view pass, const Lowered&)>;

/// Tracing and memory-mode inference, virtual-node inlining, simplification; verified behind
/// each pass that changed something. Virtual tensors vanish, local ones become scratch, everything
/// is renumbered by first appearance.
[[nodiscard]] Lowered optimize(Lowered lowered, const OptimizeOptions& options = {},
                               const PassObserver& observer = {});

/// The signature of an optimised kernel, scheduled or not: its interface, with the types and the
/// scratch that it has now, and where its tensors were placed.
[[nodiscard]] Signature make_signature(const Lowered& lowered);

}  // namespace heddle::jit
