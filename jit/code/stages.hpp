// The steps from a program to what a compiler is told, which single programs and batches share. Any
// thread.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "jit/code/code.hpp"

namespace heddle::jit {

/// The name asked for, the program's, or one made from its comments. Throws invalid_argument.
[[nodiscard]] std::string name_of(const Program& program, const std::string& asked);
/// What people call buffers and static indices.
[[nodiscard]] LoopNames names_of(const Lowered& lowered);
/// `name` as that of a unit: letters, digits and '_' only.
[[nodiscard]] std::string symbol(const std::string& name);
/// Until it is optimised. Within `limits`, and the compiler's own time.
[[nodiscard]] std::shared_ptr<CodeData> draft_code(const Program& program, std::string name,
                                                   const CompileOptions& options,
                                                   const std::shared_ptr<const Compiler>& compiler,
                                                   const CompileLimits& limits);
/// What is left of `limits`, and of the compiler's own time, of which that much was spent.
[[nodiscard]] CompileLimits with_own_time(CompileLimits limits, const Compiler& compiler,
                                          std::chrono::nanoseconds spent);
/// The last stages before a compiler's: schedules and signs. Within `limits`.
void schedule_code(CodeData& code, const CompileLimits& limits);

}  // namespace heddle::jit
