// Code of programs: with the choices that were kept for them, or measured first where that is asked
// for; compiled now or meanwhile. Any thread.
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
/// What is wrong with a program is thrown here; it is compiled, and measured where that is asked
/// for, by other threads.
[[nodiscard]] PendingCode start_program(const std::shared_ptr<BackendState>& state,
                                        const Program& program, const CompileOptions& options);
[[nodiscard]] PendingBatch start_programs(const std::shared_ptr<BackendState>& state,
                                          std::span<const Program> programs,
                                          const BatchOptions& options);

/// Options for measuring what is then compiled with `options`: half of a timeout is left for that.
[[nodiscard]] CompileOptions while_measuring(CompileOptions options);
/// Whether a compile with these options looks for what was kept.
[[nodiscard]] bool takes_kept(const BackendState& state, const CompileOptions& options) noexcept;

}  // namespace heddle::rt
