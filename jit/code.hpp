// CodeData: what is behind a Code, and the way from a Program to it. Immutable; any thread.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "heddle/code.hpp"
#include "jit/compile.hpp"
#include "jit/lower.hpp"
#include "jit/signature.hpp"

namespace heddle::jit {

/// One step of a Code: for now a kernel of a module. Copies, merges and calls join here later.
struct KernelStep {
  std::shared_ptr<const Module> module;  ///< null while postponed
  std::size_t index = 0;                 ///< which kernel of the module's unit
  [[nodiscard]] heddle_kernel_function function() const noexcept { return module->function(index); }
};

struct CodeData {
  std::string name;
  Lowered unoptimized;
  Lowered
      lowered;  ///< final: tensors per signature entry (scratch and merge too), statics, placements
  Signature signature;
  std::vector<KernelStep> steps;
  CompileOptions options;
  std::shared_ptr<const Compiler> compiler;  ///< used again at link by postponed code
};

/// A program lowered and optimised, and what its compiler is to be told.
struct Draft {
  std::shared_ptr<CodeData> code;
  CompileUnit unit;  ///< no kernels: nothing is to be compiled yet
};
/// Stages lower and optimise. Throws what those throw.
[[nodiscard]] Draft draft_program(const Program& program, const CompileOptions& options,
                                  const std::shared_ptr<const Compiler>& compiler);
/// Stage compile. Throws what Compiler::compile() throws.
[[nodiscard]] Code finish(Draft draft, const CompileLimits& limits = {});

/// Several programs, drafted. They are compiled in parts, which several compilers may work at.
struct BatchDraft {
  std::shared_ptr<const Compiler> compiler;
  std::vector<std::shared_ptr<CodeData>> codes;  ///< null where there is no program to compile
  std::vector<CompileUnit> parts;
  std::vector<std::vector<std::size_t>> positions;  ///< of each part's kernels
  std::function<void(const CompileProgress&)> progress;
};
[[nodiscard]] BatchDraft draft_programs(std::span<const Program> programs,
                                        const BatchOptions& options,
                                        const std::shared_ptr<const Compiler>& compiler);
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
