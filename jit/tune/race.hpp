// Finds the fastest candidate: runs the first candidate, which is the cost model's choice, against
// each other candidate in rounds until the time is over. Independent of kernels and clocks. One
// thread.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <optional>
#include <vector>

namespace heddle::jit {

struct RaceOptions {
  /// No run begins later than this time of the given clock.
  std::chrono::nanoseconds until{};
  /// Drops no candidate: every candidate runs as often as the best.
  bool exhaustive = false;
};

/// The rounds that a candidate needs to be taken, and the most rounds that any candidate runs.
inline constexpr std::size_t rounds_min = 3, rounds_max = 41;
/// The least speed-up over the model's choice for which a candidate is taken.
inline constexpr double gain_min = 1.02;

/// The record of one candidate's runs.
struct Raced {
  /// per round: the candidate's time divided by the first candidate's time
  std::vector<double> ratios{};
  bool dropped = false;
  /// The median over all rounds; 0 without rounds.
  [[nodiscard]] double ratio() const;
};

struct RaceResult {
  /// the first candidate has a ratio of 1 for each pair
  std::vector<Raced> all;
  std::optional<std::size_t> best = {};  ///< nullopt: no candidate ran often enough
  /// The median time of the first candidate's runs, in seconds; 0 without runs.
  double first_seconds = 0;
};

/// Runs a candidate once and returns the seconds; nullopt: the candidate cannot run, and is never
/// run again.
using RaceRun = std::function<std::optional<double>(std::size_t candidate)>;
/// The time since the start.
using RaceClock = std::function<std::chrono::nanoseconds()>;

/// Races `count` candidates; the first is the one to beat. In each round each remaining candidate
/// runs beside the first, alternately before and after the first, so a disturbance of the machine
/// affects both. A slow candidate is dropped, the sooner the slower, and runs again if the best
/// turns out to be as slow.
[[nodiscard]] RaceResult race(std::size_t count, const RaceRun& run, const RaceClock& clock,
                              const RaceOptions& options);

}  // namespace heddle::jit
