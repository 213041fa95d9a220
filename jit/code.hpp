// CodeData: what is behind a Code, and the way from a Program to it. Immutable; any thread.
#pragma once

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
  /// Entries of the batch that this code was postponed with share one array set (O55): ids of those
  /// codes' tensors.
  std::vector<Tensor> batch_tensors;
};

/// Program to Code (stages lower, optimise, compile). Throws what those throw.
[[nodiscard]] Code compile_program(const Program& program, const CompileOptions& options,
                                   const std::shared_ptr<const Compiler>& compiler);
/// Several programs as one unit.
[[nodiscard]] CodeBatch compile_programs(std::span<const Program> programs,
                                         const BatchOptions& options,
                                         const std::shared_ptr<const Compiler>& compiler);
/// The step of a postponed code, compiled for buffers at these addresses (one per signature entry;
/// nullopt: passed as an argument). Shared code returns its own step.
[[nodiscard]] KernelStep specialise(const CodeData& code,
                                    std::span<const std::optional<std::uint64_t>> addresses);

}  // namespace heddle::jit
