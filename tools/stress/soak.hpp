// Soaking: rounds of stress one after another, seed after seed, until told to stop. One thread.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "heddle/observe.hpp"
#include "tools/stress/tally.hpp"

namespace heddle::stress {

struct SoakOptions {
  std::uint64_t seed = 1;                      ///< the first round's; the next has the next one
  std::optional<std::chrono::seconds> length;  ///< unset: until stopped
  std::uint64_t rounds_max = 0;                ///< 0: as many as there is time for
  bool trace = false;                          ///< keeps a trace of the last round
  const std::atomic<bool>* stop = nullptr;     ///< set: it ends after this round
  /// Gets a line now and then.
  std::function<void(std::string_view)> progress;
};

struct SoakResult {
  Tally tally;
  std::uint64_t last_seed = 0;
  std::chrono::duration<double> time{0};
  std::vector<std::string> broken;  ///< in the last round, or by memory that grew; empty: all well
  bool stuck = false;               ///< see RoundResult
  std::optional<Trace> trace;
  [[nodiscard]] std::string to_string() const;
};

/// Ends early with the first round that breaks something. Throws Error(exhausted, unavailable) when
/// the limits on memory, descriptors or threads are too low for it.
[[nodiscard]] SoakResult soak(const SoakOptions& options);

/// Watches over memory: once warm, it may not grow beyond what was resident then, plus a quarter,
/// plus `slack_bytes`.
class MemoryBound {
 public:
  explicit MemoryBound(std::uint64_t slack_bytes) : slack_bytes_(slack_bytes) {}
  /// How much is resident after so many devices were closed. What it says is empty while all is
  /// well.
  [[nodiscard]] std::string look(std::uint64_t resident_bytes, std::uint64_t devices_closed);

  /// How devices ended is kept for the latest 4096 closed ones: until then, memory grows.
  static constexpr std::uint64_t warm_devices = 2 * 4096;

 private:
  const std::uint64_t slack_bytes_;
  std::uint64_t warm_bytes_ = 0;
};

/// Bytes in memory of this process; 0 where the system does not say.
[[nodiscard]] std::uint64_t resident_bytes();

}  // namespace heddle::stress
