// See runtime/tune/programs.hpp.
#include "runtime/tune/programs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include "heddle/backend.hpp"
#include "heddle/observe.hpp"
#include "heddle/status.hpp"
#include "runtime/device/compiling.hpp"
#include "runtime/device/tuned.hpp"
#include "runtime/settings/config.hpp"
#include "runtime/tune/tuning.hpp"

namespace heddle::rt {
namespace {

Tune mode_of(const BackendState& state, const CompileOptions& options) noexcept {
  return options.tune.mode.value_or(state.options.tune.value_or(Tune::kept));
}

/// The lookup of kept choices for drafts; empty: drafts must not look.
jit::KeptChoices kept_choices(const BackendState& state, const CompileOptions& options) {
  if (!takes_kept(state, options)) return {};
  return [tuned = state.tuned, reassociate = options.tune.reassociate](
             const jit::CompileKey& program) -> std::optional<ScheduleChoices> {
    const auto report = tuned->find(program, reassociate);
    if (!report || report->choices().empty()) return std::nullopt;
    return report->choices();
  };
}

/// Tells whether to measure before the compile: the options ask, and no choice was kept.
bool wants_tuning(const BackendState& state, const Program& program,
                  const CompileOptions& options) {
  return mode_of(state, options) == Tune::measure && has_choices(options) &&
         !state.scheduler.simulated() &&
         !state.tuned->find(jit::program_key_of(program, options), options.tune.reassociate);
}

/// Tunes if the options ask. A failure is only logged as a warning, as the program runs without
/// tuning; but invalid_argument, cancelled and compile_failed are thrown.
void tune_if_asked(const std::shared_ptr<BackendState>& state, const Program& program,
                   const CompileOptions& options) {
  if (!wants_tuning(*state, program, options)) return;
  const CompileOptions measured = while_measuring(options);
  try {
    const TunedSchedule report = tune(state, program, measured);
    if (report.too_short) {
      log(LogLevel::warn,
          fmt::format(
              "tuning '{}': {:g} s are too short to measure a candidate; the cost model "
              "chooses (give a larger TuneOptions::budget{})",
              program.name(), std::chrono::duration<double>(measured.tune.budget).count(),
              options.timeout ? " and CompileOptions::timeout, half of which it may take" : ""));
    } else if (!report.problem.empty()) {
      log(LogLevel::warn, fmt::format("tuning '{}': what was found serves this backend alone: {}",
                                      program.name(), report.problem));
    }
  } catch (const Error& error) {
    const ErrorCode code = error.code();
    if (code == ErrorCode::invalid_argument || code == ErrorCode::cancelled ||
        code == ErrorCode::compile_failed)
      throw;
    log(LogLevel::warn, fmt::format("tuning '{}' did not succeed, the cost model chooses: {}",
                                    program.name(), error.status().message()));
  }
}

jit::BatchDraft draft(const BackendState& state, std::span<const Program> programs,
                      const BatchOptions& options, const jit::CompileLimits& limits) {
  return jit::draft_programs(programs, options, state.compiler, limits, state.codes,
                             kept_choices(state, options.each));
}

/// Tunes the programs that will be compiled, in sequence: in parallel they would disturb the
/// measurements.
void tune_if_asked(const std::shared_ptr<BackendState>& state, std::span<const Program> programs,
                   const BatchOptions& options, const jit::BatchDraft& drafts) {
  for (std::size_t k = 0; k < programs.size(); ++k) {
    if (!drafts.drafts[k]) continue;
    CompileOptions each = options.each;
    each.name = drafts.drafts[k]->code.name;
    tune_if_asked(state, programs[k], each);
  }
}

/// The options with the drafted selection, to call `occupancy` only once.
BatchOptions as_drafted(BatchOptions options, const jit::BatchDraft& drafts) {
  std::vector<bool> occupied;
  for (const auto& each : drafts.drafts) occupied.push_back(each.has_value());
  options.occupancy = [occupied = std::move(occupied)](const std::string& /*name*/, std::size_t k) {
    return occupied[k];
  };
  return options;
}

bool measures(const BackendState& state, const CompileOptions& options) {
  return mode_of(state, options) == Tune::measure;
}

/// Options for a compile in the background. In manual mode the device runs only when the host
/// polls, maybe not before the host waits for the compile: nothing is measured then.
CompileOptions apart(const BackendState& state, const std::string& name, CompileOptions options) {
  const bool polled = state.options.mode.value_or(state.spec.mode) == sched::Mode::manual;
  if (!polled || !measures(state, options) || !has_choices(options)) return options;
  log(LogLevel::warn,
      fmt::format(
          "compile_async() of '{}' measures nothing, as devices of mode manual run when the "
          "host polls: what was kept is taken, else the cost model chooses (measure by "
          "compile() or Backend::tune())",
          name));
  options.tune.mode = Tune::kept;
  return options;
}

}  // namespace

CompileOptions while_measuring(CompileOptions options) {
  if (!options.timeout) return options;
  options.timeout = *options.timeout / 2;
  const auto least = std::chrono::nanoseconds(1);
  options.tune.budget = std::clamp(*options.timeout, least, std::max(options.tune.budget, least));
  return options;
}

bool takes_kept(const BackendState& state, const CompileOptions& options) noexcept {
  return mode_of(state, options) != Tune::off && has_choices(options);
}

Code compile_program(const std::shared_ptr<BackendState>& state, const Program& program,
                     const CompileOptions& options, const jit::CompileLimits& limits) {
  tune_if_asked(state, program, options);
  return jit::finish(jit::draft_program(program, options, state->compiler, limits, state->codes,
                                        kept_choices(*state, options)),
                     limits, spread_over(state->compiles));
}

CodeBatch compile_programs(const std::shared_ptr<BackendState>& state,
                           std::span<const Program> programs, const BatchOptions& options,
                           const jit::CompileLimits& limits) {
  jit::BatchDraft made = draft(*state, programs, options, limits);  // reports errors first
  if (measures(*state, options.each)) {
    tune_if_asked(state, programs, options, made);
    made = draft(*state, programs, as_drafted(options, made), limits);
  }
  return jit::finish(std::move(made), limits, spread_over(state->compiles));
}

PendingCode start_program(const std::shared_ptr<BackendState>& state, const Program& program,
                          const CompileOptions& given) {
  const CompileOptions options = apart(*state, program.name(), given);
  const jit::CompileLimits asked = limits_of(options.timeout);
  jit::Draft made = jit::draft_program(program, options, state->compiler, asked, state->codes,
                                       kept_choices(*state, options));
  if (!wants_tuning(*state, program, options)) {
    return start_compile<Code>(
        state->compiles, asked,
        [draft = std::move(made),
         compiles = state->compiles](const jit::CompileLimits& limits) mutable {
          return jit::finish(std::move(draft), limits, spread_over(compiles));
        });
  }
  return start_compile<Code>(state->compiles, asked,
                             [state, program, options](const jit::CompileLimits& limits) {
                               return compile_program(state, program, options, limits);
                             });
}

PendingBatch start_programs(const std::shared_ptr<BackendState>& state,
                            std::span<const Program> programs, const BatchOptions& given) {
  BatchOptions options = given;
  if (!programs.empty()) options.each = apart(*state, programs[0].name(), given.each);
  const jit::CompileLimits asked = limits_of(options.each.timeout);
  jit::BatchDraft made = draft(*state, programs, options, asked);
  if (!measures(*state, options.each)) {
    return start_compile<CodeBatch>(
        state->compiles, asked,
        [draft = std::move(made),
         compiles = state->compiles](const jit::CompileLimits& limits) mutable {
          return jit::finish(std::move(draft), limits, spread_over(compiles));
        });
  }
  return start_compile<CodeBatch>(
      state->compiles, asked,
      [state, all = std::vector(programs.begin(), programs.end()),
       options = as_drafted(options, made)](const jit::CompileLimits& limits) {
        return compile_programs(state, all, options, limits);
      });
}

}  // namespace heddle::rt
