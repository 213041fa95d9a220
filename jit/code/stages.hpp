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
[[nodiscard]] LoopNames names_of(const NumberedLoop& numbered, const CodeData& code);
/// `name` as that of a unit: letters, digits and '_' only.
[[nodiscard]] std::string symbol(const std::string& name);
/// Until its core is found, or it is optimised. Within `limits`, and the compiler's own time.
[[nodiscard]] Draft draft_code(const Program& program, std::string name,
                               const CompileOptions& options,
                               const std::shared_ptr<const Compiler>& compiler,
                               const CompileLimits& limits, const std::shared_ptr<Codes>& codes,
                               const KeptChoices& kept = {});
/// What is left of `limits`, and of the compiler's own time, of which that much was spent.
[[nodiscard]] CompileLimits with_own_time(CompileLimits limits, const Compiler& compiler,
                                          std::chrono::nanoseconds spent);
/// The last stages before a compiler's: schedules and signs. Within `limits`. The draft's code has
/// the core from then on, whose kernels are to be compiled.
std::shared_ptr<Core> schedule_code(Draft& draft, const CompileLimits& limits);
/// Has others find its core, which is whole; or takes theirs.
void publish(Draft& draft);

}  // namespace heddle::jit
