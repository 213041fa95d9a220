// Tuning: compiles and measures schedule choices that the cost model rates about as good as its
// own, and stores the fastest for program and machine. Plain data; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "heddle/duration.hpp"
#include "heddle/schedule.hpp"

#pragma GCC visibility push(default)
namespace heddle {

/// How a compile uses choices found by tuning.
enum class Tune : std::uint8_t {
  off,   ///< the cost model chooses
  kept,  ///< uses the choice stored for this program and machine, else the model's choice
  /// As kept; if no choice is stored, first measures candidates and stores the best, using at most
  /// half of a CompileOptions::timeout. compile_async() on manual devices does not measure, and
  /// logs a message: measuring needs a host that polls, and the host might only wait for the
  /// compile.
  measure,
};
[[nodiscard]] constexpr std::string_view name(Tune tune) noexcept {
  return tune == Tune::off ? "off" : tune == Tune::kept ? "kept" : "measure";
}

struct TuneOptions {
  /// Unset: the backend's default (BackendOptions::tune).
  std::optional<Tune> mode{};
  /// The time limit for measuring, including compiles of candidates; measuring ends at most a few
  /// runs later. Must be above 0 (invalid_argument). Other load on the machine, including a second
  /// measuring thread, disturbs the measurement.
  std::chrono::nanoseconds budget = std::chrono::seconds(10);
  /// Also measures candidates that add the terms of float sums in another order than the model's
  /// choice: results may then differ in their last bits from those of other machines, and from
  /// earlier results. A choice found with this option is stored separately, and used by compiles
  /// with this option only.
  bool reassociate = false;
  /// Compiles every candidate, however bad its estimate, and measures it as often as the best: to
  /// compare the tuned choice with the optimum.
  bool exhaustive = false;

  friend bool operator==(const TuneOptions&, const TuneOptions&) = default;
};

/// The outcome of measuring a candidate.
enum class TuneVerdict : std::uint8_t {
  unmeasured,  ///< the budget ended before
  measured,
  dropped,    ///< measured a few times and found too slow
  different,  ///< its results differ from those of the model's choice; never used, and logged
  failed,     ///< compiling or running the candidate failed
};
[[nodiscard]] std::string_view name(TuneVerdict verdict) noexcept;

struct TunedCandidate {
  ScheduleChoices choices{};
  /// true if float sums have the order of the model's choice, and results the same bits; or if any
  /// order is allowed (CompileOptions::fast_math).
  bool same_order = true;
  double estimated_us = 0;  ///< by the cost model: only for comparing candidates
  TuneVerdict verdict = TuneVerdict::unmeasured;
  std::size_t rounds = 0;  ///< rounds in which the candidate and the model's choice ran in turn
  double median_us = 0;    ///< time of one run, from schedule() to its end; 0 unless measured
  /// The median over rounds of the candidate's time divided by that of the model's choice; 0 unless
  /// measured.
  double ratio = 0;

  friend bool operator==(const TunedCandidate&, const TunedCandidate&) = default;
};

/// The result of tuning a program on a machine.
struct TunedSchedule {
  std::vector<TunedCandidate> candidates{};  ///< the model's choice first
  std::size_t best = 0;                      ///< index of the candidate to use
  bool measured = false;                     ///< measured by this call, not read from storage
  /// No candidate could be measured often enough: nothing was stored, the model's choice stays.
  bool too_short = false;
  std::string file{};     ///< where the choice is stored; empty: not stored
  std::string problem{};  ///< why storing failed; empty if stored, or if there is nothing to store

  [[nodiscard]] const ScheduleChoices& choices() const { return candidates.at(best).choices; }
};

}  // namespace heddle
#pragma GCC visibility pop
