// Tuning: the choices of a schedule that the cost model finds about as good as its own are compiled
// and measured; the fastest is kept for program and machine. Plain data; any thread.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "heddle/schedule.hpp"

#pragma GCC visibility push(default)
namespace heddle {

/// What a compile does about choices that tuning found.
enum class Tune : std::uint8_t {
  off,   ///< the cost model chooses
  kept,  ///< what was kept for this program and machine is taken, else the model chooses
  /// Likewise; where nothing was kept, candidates are measured first, and the best of them kept.
  /// That has half of a CompileOptions::timeout. compile_async() on manual devices measures
  /// nothing, and the log says so: nobody may poll before its end is waited for.
  measure,
};
[[nodiscard]] constexpr std::string_view name(Tune tune) noexcept {
  return tune == Tune::off ? "off" : tune == Tune::kept ? "kept" : "measure";
}

struct TuneOptions {
  /// Unset: as the backend says (BackendOptions::tune).
  std::optional<Tune> mode{};
  /// All that measuring may take, compiles of candidates included; it ends a few runs later at
  /// most. Above 0, else invalid_argument. Whatever else runs on the machine meanwhile disturbs it,
  /// another thread that measures too.
  std::chrono::nanoseconds budget = std::chrono::seconds(10);
  /// Also candidates that add the terms of float sums in another order than the model's choice:
  /// results may then differ in their last bits from those of other machines, and from those
  /// before. What is found so is kept apart, for compiles that ask for it too.
  bool reassociate = false;
  /// All candidates are compiled, however bad their estimate, and measured as often as the best:
  /// to see how far from these the tuned one is.
  bool exhaustive = false;

  friend bool operator==(const TuneOptions&, const TuneOptions&) = default;
};

/// How a candidate fared.
enum class TuneVerdict : std::uint8_t {
  unmeasured,  ///< the budget was over before
  measured,
  dropped,    ///< measured a few times: it was too slow
  different,  ///< its results were not those of the model's choice; never taken, and logged
  failed,     ///< it could not be compiled, or did not run
};
[[nodiscard]] std::string_view name(TuneVerdict verdict) noexcept;

struct TunedCandidate {
  ScheduleChoices choices{};
  /// The order of float sums is that of the model's choice, and so are all bits; or any order will
  /// do (CompileOptions::fast_math).
  bool same_order = true;
  double estimated_us = 0;  ///< by the cost model: good for comparing candidates only
  TuneVerdict verdict = TuneVerdict::unmeasured;
  std::size_t rounds = 0;  ///< in which it and the model's choice ran in turn
  double median_us = 0;    ///< of one run, from schedule() to its end; 0 unless it was measured
  /// The median over rounds of its time in parts of that of the model's choice; 0 likewise.
  double ratio = 0;

  friend bool operator==(const TunedCandidate&, const TunedCandidate&) = default;
};

/// What tuning found for a program on a machine.
struct TunedSchedule {
  std::vector<TunedCandidate> candidates{};  ///< the model's choice first
  std::size_t best = 0;                      ///< the one that is taken
  bool measured = false;                     ///< now: it was not kept before
  /// No candidate could be measured often enough: nothing was kept, the model's choice stays.
  bool too_short = false;
  std::string file{};     ///< where it is kept; empty: nowhere
  std::string problem{};  ///< why it could not be kept; empty where it is, or nothing is to be

  [[nodiscard]] const ScheduleChoices& choices() const { return candidates.at(best).choices; }
};

}  // namespace heddle
#pragma GCC visibility pop
