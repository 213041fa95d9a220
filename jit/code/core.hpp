// Core: what becomes of a program when it is compiled, without its tensors: programs that differ in
// names alone have one. Immutable once it is made; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "jit/loop/loop.hpp"
#include "jit/loop/signature.hpp"
#include "jit/loop/verify.hpp"
#include "jit/toolchain/compiler.hpp"
#include "jit/vector/lanes.hpp"

namespace heddle::jit {

/// An entry of a kernel that each processor which runs parts of it has its own of.
struct OwnEntry {
  std::uint32_t place;  ///< in KernelStep::entries
  std::size_t offset;   ///< in what a processor has, a multiple of 64
};
/// More than that is not had once for each processor: such a kernel runs in one part.
inline constexpr std::size_t own_bytes_max = std::size_t{16} << 20;
/// Calls a kernel of a unit with these entries of the signature and static indices of the program.
struct KernelStep {
  VerifiedLoop loop;
  std::shared_ptr<const LanePlan> lanes;  ///< as KernelSource::lanes
  std::vector<std::uint32_t> entries;
  std::vector<std::uint32_t> statics;  ///< ascending
  bool looks_at_stop = false;          ///< it runs for long enough to (heddle_kernel_args::stop)
  std::uint32_t parts = 1;             ///< that are worth it, at once, where processors are free
  bool in_groups = false;              ///< of a GPU's threads, which share out iterations
  std::vector<OwnEntry> own{};         ///< the first processor has them in the code's scratch
  std::size_t own_bytes = 0;           ///< of another one, a multiple of 64; own_bytes_max at most
  std::string about{};                 ///< see about_kernels()
  std::shared_ptr<const Compiled> unit{};  ///< null while postponed
  std::size_t index = 0;                   ///< which of the unit's kernels
};
/// Copies all of an entry to another, of as many bytes.
struct CopyStep {
  std::uint32_t to, from;
};
/// Every byte of an entry becomes 0.
struct ZeroStep {
  std::uint32_t entry;
};
/// Has the merge entry hold the merge tensor: what comes after may read it.
struct MergeStep {};
/// Calls a function of the host once all before it has ended.
struct CallStep {
  std::function<Status()> call;
};
/// What a routine does, one after the other, under one ticket. The first that fails is the last.
using Step = std::variant<KernelStep, CopyStep, ZeroStep, MergeStep, CallStep>;

/// A kernel, and what its numbers stand for.
struct NumberedLoop {
  Loop loop;
  /// Per buffer, its place in CodeData::tensors. Buffers beyond are scratch of the schedule's own.
  std::vector<std::uint32_t> tensors;
  std::vector<std::string> scratch;    ///< labels of those
  std::vector<std::uint32_t> statics;  ///< per Loop::statics, their places in CodeData::statics
};

/// Places in one block of memory.
struct MemoryPlan {
  std::vector<std::size_t> offsets{};  ///< multiples of 64
  std::size_t bytes = 0;               ///< of all, a multiple of 64
};

struct Core {
  NumberedLoop unoptimized, scheduled;
  Signature signature;
  std::vector<MemoryMode> placements;  ///< per CodeData::tensors, but for the merge tensor
  std::vector<Step> steps;
  MemoryPlan scratch;         ///< see plan_scratch()
  std::size_t own_bytes = 0;  ///< the most of its kernels
};

}  // namespace heddle::jit
