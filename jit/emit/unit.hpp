// A unit of compilation: kernels, as they are handed to emitters.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "jit/loop/loop.hpp"
#include "jit/loop/text.hpp"
#include "jit/loop/verify.hpp"
#include "jit/vector/lanes.hpp"

namespace heddle::jit {

/// A kernel of a unit.
struct KernelSource {
  std::string name;  ///< end of its symbol; [A-Za-z0-9_], unique in its unit
  VerifiedLoop loop;
  LoopNames names;  ///< for comments in emitted text only
  /// Per buffer: an address to embed as a constant instead of reading it from the arguments
  /// (postponed code, O23); empty or nullopt entries are arguments. Such kernels are valid for
  /// these addresses only.
  std::vector<std::optional<std::uint64_t>> addresses{};
  std::string label{};  ///< for people
  /// The kernel before optimisation and scheduling, for dumps only; may be null.
  std::shared_ptr<const Loop> unoptimized{};
  LoopNames unoptimized_names{};
  /// The vector plan of `loop` on its target; null: the kernel was not scheduled, and the emitter
  /// plans.
  std::shared_ptr<const LanePlan> lanes{};
};

struct CompileUnit {
  std::string name;  ///< file name stem of dumps and kept sources
  std::vector<KernelSource> kernels;
  bool trace_values = false;  ///< call heddle_kernel_args::trace at each assignment (O57)
};

}  // namespace heddle::jit
