// Which candidate is fastest: the first one, the cost model's, and the others run in turn, in
// rounds, until the time is over. Knows neither kernels nor clocks. One thread.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <optional>
#include <vector>

namespace heddle::jit {

struct RaceOptions {
  /// No run begins later than this, by the clock that is given.
  std::chrono::nanoseconds until{};
  /// None is dropped: all run as often as the best.
  bool exhaustive = false;
};

/// Rounds that a candidate has to have run to be taken, and the most that any runs.
inline constexpr std::size_t rounds_min = 3, rounds_max = 41;
/// A candidate that is not so much faster than the model's choice is not worth it.
inline constexpr double gain_min = 1.02;

/// How a candidate ran.
struct Raced {
  std::vector<double> ratios{};  ///< of each round: its time in parts of that of the first one
  bool dropped = false;
  /// Of all rounds the middle one; 0 without any.
  [[nodiscard]] double ratio() const;
};

struct RaceResult {
  std::vector<Raced> all;                ///< that of the first one: 1, as often as others ran
  std::optional<std::size_t> best = {};  ///< none: no other ran often enough
  /// Of the first one's runs the middle one, in seconds; 0 without any.
  double first_seconds = 0;
};

/// Runs a candidate once, and tells its seconds; nothing: it cannot run, and is never asked again.
using RaceRun = std::function<std::optional<double>(std::size_t candidate)>;
/// Time that has passed since all began.
using RaceClock = std::function<std::chrono::nanoseconds()>;

/// `count` candidates, the first of which is the one to beat. In each round each of the others runs
/// beside it, now before it, now after: what disturbs the machine for a while disturbs both. A
/// candidate that is too slow is dropped, the sooner the slower, and runs again should the best
/// turn out to be as slow.
[[nodiscard]] RaceResult race(std::size_t count, const RaceRun& run, const RaceClock& clock,
                              const RaceOptions& options);

}  // namespace heddle::jit
