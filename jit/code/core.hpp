// Core: the compiled form of a program, without its tensors. Programs that differ only in names
// share a core. Immutable after construction; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "jit/loop/loop.hpp"
#include "jit/loop/signature.hpp"
#include "jit/loop/verify.hpp"
#include "jit/schedule/scalar_part.hpp"
#include "jit/toolchain/compiler.hpp"
#include "jit/vector/lanes.hpp"

namespace heddle::jit {

/// A kernel entry of which each processor that runs parts of the kernel has a private copy.
struct OwnEntry {
  std::uint32_t place;  ///< in KernelStep::entries
  std::size_t offset;   ///< in the processor's private block, a multiple of 64
};
/// A kernel that needs more private bytes per processor runs in one part.
inline constexpr std::size_t own_bytes_max = std::size_t{16} << 20;
/// Calls a kernel of a unit with these entries of the signature and these static indices of the
/// program.
struct KernelStep {
  VerifiedLoop loop;
  std::shared_ptr<const LanePlan> lanes;  ///< as KernelSource::lanes
  std::vector<std::uint32_t> entries;
  std::vector<std::uint32_t> statics;  ///< ascending
  bool looks_at_stop = false;          ///< runs long enough to poll heddle_kernel_args::stop
  std::uint32_t parts = 1;  ///< how many parts are worthwhile at once, where processors are free
  bool in_groups = false;   ///< runs in groups of GPU threads, which share iterations
  std::vector<OwnEntry> own{};  ///< processor 0 uses the code's scratch instead
  std::size_t own_bytes = 0;    ///< per further processor, a multiple of 64; own_bytes_max at most
  std::string about{};          ///< see about_kernels()
  std::shared_ptr<const Compiled> unit{};  ///< null while postponed
  std::size_t index = 0;                   ///< number of the kernel in its unit
};
/// Copies an entry to a second entry of the same size.
struct CopyStep {
  std::uint32_t to, from;
};
/// Sets every byte of an entry to 0.
struct ZeroStep {
  std::uint32_t entry;
};
/// Loads the merge tensor into the merge entry; later steps may read the entry.
struct MergeStep {};
/// Calls a function of the host after all earlier steps have ended.
struct CallStep {
  std::function<Status()> call;
};
/// The steps of a routine, in order, under one ticket. The first failure ends the routine.
using Step = std::variant<KernelStep, CopyStep, ZeroStep, MergeStep, CallStep>;

/// A kernel, and the tensors, labels and static indices that the kernel's numbers denote.
struct NumberedLoop {
  Loop loop;
  /// Per buffer, its place in CodeData::tensors. Further buffers are scratch of the schedule.
  std::vector<std::uint32_t> tensors;
  std::vector<std::string> scratch;    ///< labels of the scratch buffers
  std::vector<std::uint32_t> statics;  ///< per Loop::statics, their places in CodeData::statics
};

/// Places in one block of memory.
struct MemoryPlan {
  std::vector<std::size_t> offsets{};  ///< multiples of 64
  std::size_t bytes = 0;               ///< the size of the block, a multiple of 64
};

struct Core {
  NumberedLoop unoptimized, scheduled;
  Signature signature;
  std::vector<MemoryMode> placements;  ///< per CodeData::tensors, but for the merge tensor
  std::vector<Step> steps;
  MemoryPlan scratch;                       ///< see plan_scratch()
  std::size_t own_bytes = 0;                ///< the largest of the kernels' own_bytes
  std::optional<ScalarPart> scalar_part{};  ///< see longest_scalar_part()
};

}  // namespace heddle::jit
