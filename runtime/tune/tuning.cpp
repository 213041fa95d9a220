// See runtime/tune/tuning.hpp.
#include "runtime/tune/tuning.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "heddle/backend.hpp"
#include "heddle/observe.hpp"
#include "heddle/status.hpp"
#include "jit/code/options.hpp"
#include "jit/system/inside.hpp"
#include "jit/tune/candidates.hpp"
#include "jit/tune/race.hpp"
#include "runtime/device/compiling.hpp"
#include "runtime/device/tuned.hpp"
#include "runtime/tune/trial.hpp"
#include "scheduler/threads/floating.hpp"

namespace heddle::rt {
namespace {

using std::chrono::nanoseconds;

/// Most candidates compiled together before the next look at the clock.
constexpr std::size_t wave_max = 16;
/// Ends of phases, as parts of the budget: listing candidates, starting compiles, cutting compiles
/// off, comparing results. The runs have the rest.
constexpr double list_until = 0.2, compile_until = 0.45, compile_end = 0.6, compare_until = 0.75;
/// The shortest time of a measurement, by repeated runs: clock and wait are negligible beside that
/// time.
constexpr double run_seconds_min = 200e-6;
constexpr std::size_t repeats_max = 256;

class Tuning {
 public:
  Tuning(const std::shared_ptr<BackendState>& state, const Program& program,
         const CompileOptions& options, const TuneTools& tools)
      : state_(state),
        program_(program),
        options_(options),
        tools_(tools),
        limits_(limits_of(options.timeout)) {
    if (options.timeout) options_.tune.budget = std::min(options.tune.budget, *options.timeout);
    plain_ = options;
    plain_.choices = {};
    plain_.tune.mode = Tune::off;
    plain_.shared = true;  // code without built-in addresses, as the memory is the trial's
    if (!tools_.clock) {
      tools_.clock = [begin = std::chrono::steady_clock::now()] {
        return nanoseconds(std::chrono::steady_clock::now() - begin);
      };
    }
    if (!tools_.seconds) {
      tools_.seconds = [](const ScheduleChoices& /*choices*/, const std::function<void()>& run) {
        const auto from = std::chrono::steady_clock::now();
        run();
        return std::chrono::duration<double>(std::chrono::steady_clock::now() - from).count();
      };
    }
  }

  TunedSchedule tune() {
    list();
    compile();
    if (compiled_.size() > 1) measure();
    const auto is_out = [](const TunedCandidate& each) {
      return each.verdict == TuneVerdict::different || each.verdict == TuneVerdict::failed;
    };
    const bool alone =
        report_.candidates.size() > 1 &&
        std::all_of(report_.candidates.begin() + 1, report_.candidates.end(), is_out);
    report_.too_short = !conclusive_ && !alone;
    if (report_.too_short) {
      report_.measured = true;
      return std::move(report_);
    }
    TunedSchedule made = *state_->tuned->keep(key_, options_.tune.reassociate, std::move(report_));
    made.measured = true;
    return made;
  }

 private:
  /// Tells whether this part of the budget is over.
  [[nodiscard]] bool past(double part) const {
    return std::chrono::duration<double>(tools_.clock()) >=
           part * std::chrono::duration<double>(options_.tune.budget);
  }

  void list() {
    const jit::Draft draft = jit::draft_program(program_, plain_, state_->compiler, limits_);
    CompileOptions kept = options_;
    kept.choices = {};
    key_ = jit::program_key_of(program_, kept);
    jit::CandidateOptions wanted;
    wanted.reassociate = options_.tune.reassociate;
    bool cut = false;  // the list was cut short
    wanted.enough = [this, &cut] { return cut = cut || past(list_until); };
    if (options_.tune.exhaustive) {
      wanted.near = INFINITY;
      wanted.most = SIZE_MAX;
      wanted.factors = {2, 4, 8};
      wanted.enough = nullptr;
    }
    report_.candidates =
        jit::list_candidates(draft.lowered, state_->compiler->target(), plain_, wanted);
    conclusive_ = report_.candidates.size() == 1 && !cut;
  }

  /// Compiles the model's choice, then the candidates by estimate, while time is left.
  void compile() {
    compiled_.emplace_back(0, jit::finish(jit::draft_program(program_, plain_, state_->compiler,
                                                             limits_, state_->codes),
                                          limits_, spread_over(state_->compiles)));
    const std::size_t count = report_.candidates.size();
    std::size_t wave = available_processors();
    for (std::size_t from = 1; from < count && (from == 1 ? !past(compile_end) : may_compile());) {
      const nanoseconds begin = tools_.clock();
      const std::size_t to = std::min(from + wave, count);
      compile(from, to);
      wave = next_wave(to - from, tools_.clock() - begin);
      from = to;
    }
  }

  /// The number of candidates to compile next, from the duration of the last wave.
  [[nodiscard]] std::size_t next_wave(std::size_t these, nanoseconds took) const {
    const double each = static_cast<double>(took.count()) / static_cast<double>(these);
    const double left = compile_until * static_cast<double>(options_.tune.budget.count()) -
                        static_cast<double>(tools_.clock().count());
    const auto least = static_cast<double>(std::min<std::size_t>(available_processors(), wave_max));
    if (options_.tune.exhaustive || each <= 0) return wave_max;
    return static_cast<std::size_t>(std::clamp(left / each, least, static_cast<double>(wave_max)));
  }

  [[nodiscard]] bool may_compile() const {
    return options_.tune.exhaustive || !past(compile_until);
  }

  void compile(std::size_t from, std::size_t to) {
    try {
      std::vector<ScheduleChoices> choices;
      for (std::size_t k = from; k < to; ++k) choices.push_back(report_.candidates[k].choices);
      const CodeBatch batch = compiled_as(choices);
      for (std::size_t k = from; k < to; ++k) compiled_.emplace_back(k, *batch[k - from]);
    } catch (const Error& error) {
      if (error.code() == ErrorCode::cancelled) throw;
      if (error.code() == ErrorCode::deadline) return;  // the rest of the time is for runs
      one_by_one(from, to);
    }
  }

  /// Compiles one by one, as a single candidate may have failed the batch.
  void one_by_one(std::size_t from, std::size_t to) {
    for (std::size_t k = from; k < to && may_compile(); ++k) {
      try {
        compiled_.emplace_back(k, *compiled_as({&report_.candidates[k].choices, 1})[0]);
      } catch (const Error& error) {
        if (error.code() == ErrorCode::cancelled) throw;
        if (error.code() == ErrorCode::deadline) return;
        // A failure for lack of memory or processes may not happen again: no verdict.
        if (error.code() == ErrorCode::compile_failed)
          report_.candidates[k].verdict = TuneVerdict::failed;
      }
    }
  }

  [[nodiscard]] CodeBatch compiled_as(std::span<const ScheduleChoices> choices) const {
    jit::CompileLimits limits = limits_;
    if (!options_.tune.exhaustive) {
      const auto until = std::chrono::duration_cast<nanoseconds>(
          compile_end * std::chrono::duration<double>(options_.tune.budget));
      const jit::CompileLimits own = limits_of(std::max(until - tools_.clock(), nanoseconds(1)));
      limits.deadline = limits.deadline ? std::min(*limits.deadline, *own.deadline) : own.deadline;
    }
    return jit::finish(
        jit::draft_choices(program_, plain_, choices, state_->compiler, limits, state_->codes),
        limits, spread_over(state_->compiles));
  }

  /// Measures the candidates whose results match the model's choice.
  void measure() {
    Trial trial(Inside::make<Hardware>(state_, 0).new_virtual_device(), compiled_[0].second,
                plain_);
    std::vector<std::size_t> running{0};
    for (std::size_t k = 1; k < compiled_.size(); ++k) {
      const auto& [number, code] = compiled_[k];
      if (!options_.tune.exhaustive && past(compare_until)) break;
      TunedCandidate& candidate = report_.candidates[number];
      const TuneVerdict verdict = trial.add(
          code, candidate.same_order && !options_.fast_math && !options_.unordered_scatters);
      if (verdict == TuneVerdict::measured) {
        running.push_back(number);
      } else {
        candidate.verdict = verdict;
        tell_different(candidate, code);
      }
    }
    race(trial, running);
  }

  void tell_different(const TunedCandidate& candidate, const Code& code) const {
    if (candidate.verdict != TuneVerdict::different) return;
    log(LogLevel::error,
        fmt::format("tuning '{}': scheduled with '{}' its results differ from those of the cost "
                    "model's choice, which should not be; it is not taken (please report this)",
                    code.name(), candidate.choices.to_string()));
  }

  void race(const Trial& trial, const std::vector<std::size_t>& running) {
    const auto choices = [&](std::size_t k) -> const ScheduleChoices& {
      return report_.candidates[running[k]].choices;
    };
    const auto timed = [&](std::size_t k, std::size_t times) {
      return tools_.seconds(choices(k), [&] { trial.run(k, times); }) / static_cast<double>(times);
    };
    const double once = std::max(timed(0, 1), 1e-9);
    const auto repeats = static_cast<std::size_t>(
        std::clamp(std::ceil(run_seconds_min / once), 1.0, static_cast<double>(repeats_max)));
    std::vector<bool> fails(running.size(), false);
    const auto run = [&](std::size_t k) -> std::optional<double> {
      try {
        return timed(k, repeats);
      } catch (const Error&) {
        if (k == 0) throw;
        fails[k] = true;
        return std::nullopt;
      }
    };
    const jit::RaceResult result =
        jit::race(running.size(), run, tools_.clock,
                  {.until = options_.tune.budget, .exhaustive = options_.tune.exhaustive});
    for (std::size_t k = 0; k < running.size(); ++k)
      take(report_.candidates[running[k]], result.all[k], fails[k], result.first_seconds);
    if (!result.best) return;
    report_.best = running[*result.best];
    conclusive_ = true;
  }

  static void take(TunedCandidate& candidate, const jit::Raced& raced, bool fails,
                   double first_seconds) {
    candidate.rounds = raced.ratios.size();
    candidate.ratio = raced.ratio();
    candidate.median_us = candidate.ratio * first_seconds * 1e6;
    if (fails) {
      candidate.verdict = TuneVerdict::failed;
    } else if (raced.dropped) {
      candidate.verdict = TuneVerdict::dropped;
    } else if (candidate.rounds > 0) {
      candidate.verdict = TuneVerdict::measured;
    }
  }

  const std::shared_ptr<BackendState>& state_;
  const Program& program_;
  CompileOptions options_;
  TuneTools tools_;
  const jit::CompileLimits limits_;
  CompileOptions plain_;   // of the cost model's choice
  jit::CompileKey key_{};  // of the program with the options of the caller
  TunedSchedule report_;
  std::vector<std::pair<std::size_t, Code>> compiled_;  // candidates, the model's choice first
  bool conclusive_ = false;
};

}  // namespace

bool has_choices(const CompileOptions& options) noexcept {
  return options.schedule == Schedule::automatic && !options.trace_values &&
         options.choices.empty();
}

TunedSchedule tune(const std::shared_ptr<BackendState>& state, const Program& program,
                   const CompileOptions& options, const TuneTools& tools) {
  jit::check(options);
  if (!has_choices(options)) {
    throw Error(ErrorCode::failed_precondition,
                "there is nothing to tune: with Schedule::off, trace_values or "
                "CompileOptions::choices, no choice of the schedule is free");
  }
  if (state->scheduler.simulated()) {
    throw Error(ErrorCode::failed_precondition,
                "nothing can be measured in a simulation, whose time is its own; tune with a "
                "backend that has a scheduler of its own");
  }
  const sched::DefaultFloating floating;  // for estimates and comparisons
  return Tuning(state, program, options, tools).tune();
}

}  // namespace heddle::rt
