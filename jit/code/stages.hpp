// The stages from a program to the input of a compiler, shared by single programs and batches. Any
// thread.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "jit/code/code.hpp"

namespace heddle::jit {

/// The name asked for, the program's name, or a name made from the program's comments. Throws
/// invalid_argument.
[[nodiscard]] std::string name_of(const Program& program, const std::string& asked);
/// The names of buffers and static indices, for people.
[[nodiscard]] LoopNames names_of(const NumberedLoop& numbered, const CodeData& code);
/// `name` as the name of a unit: letters, digits and '_' only.
[[nodiscard]] std::string symbol(const std::string& name);
/// Runs until the program's core is found, or the program is optimised. Respects `limits` and the
/// compiler's own time limit.
[[nodiscard]] Draft draft_code(const Program& program, std::string name,
                               const CompileOptions& options,
                               const std::shared_ptr<const Compiler>& compiler,
                               const CompileLimits& limits, const std::shared_ptr<Codes>& codes,
                               const KeptChoices& kept = {});
/// The rest of `limits` and of the compiler's own time limit, after `spent`.
[[nodiscard]] CompileLimits with_own_time(CompileLimits limits, const Compiler& compiler,
                                          std::chrono::nanoseconds spent);
/// The last stages before the compiler: schedules and signs, within `limits`. Afterwards the
/// draft's code has the core, whose kernels must still be compiled.
std::shared_ptr<Core> schedule_code(Draft& draft, const CompileLimits& limits);
/// Publishes the complete core of the draft, or replaces the core by an equal core published
/// earlier.
void publish(Draft& draft);

}  // namespace heddle::jit
