// Code of programs, with the choices kept by earlier tuning, or tuned first where the options ask;
// compiled now or in the background. Any thread.
#pragma once

#include <memory>
#include <span>

#include "heddle/code.hpp"
#include "heddle/pending.hpp"
#include "jit/code/code.hpp"
#include "runtime/device/backend_state.hpp"

namespace heddle::rt {

[[nodiscard]] Code compile_program(const std::shared_ptr<BackendState>& state,
                                   const Program& program, const CompileOptions& options,
                                   const jit::CompileLimits& limits);
[[nodiscard]] CodeBatch compile_programs(const std::shared_ptr<BackendState>& state,
                                         std::span<const Program> programs,
                                         const BatchOptions& options,
                                         const jit::CompileLimits& limits);
/// Errors of a program are thrown here; threads of the compile pool compile the program, and
/// measure where the options ask.
[[nodiscard]] PendingCode start_program(const std::shared_ptr<BackendState>& state,
                                        const Program& program, const CompileOptions& options);
[[nodiscard]] PendingBatch start_programs(const std::shared_ptr<BackendState>& state,
                                          std::span<const Program> programs,
                                          const BatchOptions& options);

/// Options for tuning before a compile with `options`: half of a timeout is left for the compile.
[[nodiscard]] CompileOptions while_measuring(CompileOptions options);
/// Tells whether a compile with these options looks up kept choices.
[[nodiscard]] bool takes_kept(const BackendState& state, const CompileOptions& options) noexcept;

}  // namespace heddle::rt
