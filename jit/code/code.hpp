// CodeData: what is behind a Code, and the way from a Program to it. Immutable; any thread.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "heddle/code.hpp"
#include "jit/code/parts.hpp"
#include "jit/loop/signature.hpp"
#include "jit/lower/lower.hpp"
#include "jit/toolchain/compiler.hpp"

namespace heddle::jit {

/// Calls a kernel of a unit with these entries of the signature and static indices of the program.
struct KernelStep {
  VerifiedLoop loop;
  std::shared_ptr<const LanePlan> lanes;  ///< as KernelSource::lanes
  std::vector<std::uint32_t> entries;
  std::vector<std::uint32_t> statics;  ///< ascending
  bool looks_at_stop = false;          ///< it runs for long enough to (heddle_kernel_args::stop)
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

struct CodeData {
  std::string name;
  Lowered unoptimized;
  Lowered
      lowered;  ///< final: tensors per signature entry (scratch and merge too), statics, placements
  Signature signature;                          ///< once it is scheduled
  std::vector<std::optional<HostArray>> hosts;  ///< per entry: the tensor's, when compile() began
  std::vector<Step> steps;                      ///< once it is scheduled
  std::chrono::nanoseconds draft_time{};  ///< of the compiler's own time, until it was optimised
  CompileOptions options;
  std::shared_ptr<const Compiler> compiler;  ///< used again at link by postponed code
};

/// A program lowered and optimised: what can be wrong with it was found.
struct Draft {
  std::shared_ptr<CodeData> code;
};
/// Stages lower and optimise. Throws what those throw, and `deadline` or `cancelled`.
[[nodiscard]] Draft draft_program(const Program& program, const CompileOptions& options,
                                  const std::shared_ptr<const Compiler>& compiler,
                                  const CompileLimits& limits = {});
/// Stages schedule, sign and compile. Throws what Compiler::compile() throws.
[[nodiscard]] Code finish(Draft draft, const CompileLimits& limits = {},
                          const Spread& spread = unspread);

/// Programs of a batch that are compiled together.
struct BatchPart {
  std::string name;  ///< of its unit
  std::vector<std::size_t> positions;
};
/// Several programs, drafted. They are scheduled and compiled in parts, which several threads may
/// work at.
struct BatchDraft {
  std::shared_ptr<const Compiler> compiler;
  std::vector<std::shared_ptr<CodeData>> codes;  ///< null where there is no program to compile
  std::vector<BatchPart> parts;
  std::function<void(const CompileProgress&)> progress;
};
[[nodiscard]] BatchDraft draft_programs(std::span<const Program> programs,
                                        const BatchOptions& options,
                                        const std::shared_ptr<const Compiler>& compiler,
                                        const CompileLimits& limits = {});
/// Throws the error of the first part that failed, in order, whichever failed first in time.
[[nodiscard]] CodeBatch finish(BatchDraft draft, const CompileLimits& limits, const Spread& spread);

/// The steps of a postponed code, compiled for buffers at these addresses (one per signature entry;
/// nullopt: passed as an argument). Shared code returns its own.
[[nodiscard]] std::vector<Step> specialise(const CodeData& code,
                                           std::span<const std::optional<std::uint64_t>> addresses,
                                           const Spread& spread);

}  // namespace heddle::jit
