// CodeData: what is behind a Code, and the way from a Program to it. Immutable; any thread.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "heddle/code.hpp"
#include "jit/loop/signature.hpp"
#include "jit/lower/lower.hpp"
#include "jit/toolchain/compiler.hpp"

namespace heddle::jit {

/// One step of a Code: for now a kernel of a unit. Copies, merges and calls join here later.
struct KernelStep {
  std::shared_ptr<const Compiled> unit;  ///< null while postponed
  std::size_t index = 0;                 ///< which of its kernels
};

struct CodeData {
  std::string name;
  Lowered unoptimized;
  Lowered
      lowered;  ///< final: tensors per signature entry (scratch and merge too), statics, placements
  Signature signature;                          ///< once it is scheduled
  std::vector<std::optional<HostArray>> hosts;  ///< per entry: the tensor's, when compile() began
  std::vector<KernelStep> steps;
  bool looks_at_stop = false;  ///< its kernel runs for long enough to (heddle_kernel_args::stop)
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
[[nodiscard]] Code finish(Draft draft, const CompileLimits& limits = {});

/// Several programs, drafted. They are scheduled and compiled in parts, which several threads may
/// work at.
struct BatchDraft {
  std::shared_ptr<const Compiler> compiler;
  std::vector<std::shared_ptr<CodeData>> codes;  ///< null where there is no program to compile
  std::vector<CompileUnit> parts;  ///< their kernels get their loops when they are scheduled
  std::vector<std::vector<std::size_t>> positions;  ///< of each part's kernels
  std::function<void(const CompileProgress&)> progress;
};
[[nodiscard]] BatchDraft draft_programs(std::span<const Program> programs,
                                        const BatchOptions& options,
                                        const std::shared_ptr<const Compiler>& compiler,
                                        const CompileLimits& limits = {});
/// Calls `work` from up to `count` threads at once, and returns when all calls did. One call does
/// all that is left to do; it throws nothing.
using Spread = std::function<void(std::size_t count, const std::function<void()>& work)>;
/// Throws the error of the first part that failed, in order, whichever failed first in time.
[[nodiscard]] CodeBatch finish(BatchDraft draft, const CompileLimits& limits, const Spread& spread);

/// The step of a postponed code, compiled for buffers at these addresses (one per signature entry;
/// nullopt: passed as an argument). Shared code returns its own step.
[[nodiscard]] KernelStep specialise(const CodeData& code,
                                    std::span<const std::optional<std::uint64_t>> addresses);

}  // namespace heddle::jit
