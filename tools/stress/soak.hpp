// Soaking: rounds of stress one after another, seed after seed, until stopped. One thread.
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
  std::uint64_t seed = 1;                      ///< of the first round; each later round adds one
  std::optional<std::chrono::seconds> length;  ///< unset: until stopped
  std::uint64_t rounds_max = 0;                ///< 0: no bound
  bool trace = false;                          ///< keeps a trace of the last round
  const std::atomic<bool>* stop = nullptr;     ///< set: soaking ends after this round
  /// Receives a progress line now and then.
  std::function<void(std::string_view)> progress;
};

struct SoakResult {
  Tally tally;
  std::uint64_t last_seed = 0;
  std::chrono::duration<double> time{0};
  std::vector<std::string> broken;  ///< in the last round, or growth of memory; empty: no failure
  bool stuck = false;               ///< see RoundResult
  std::optional<Trace> trace;
  [[nodiscard]] std::string to_string() const;
};

/// Ends early with the first round that breaks an invariant. Throws Error(exhausted, unavailable)
/// when the limits on memory, descriptors or threads are too low.
[[nodiscard]] SoakResult soak(const SoakOptions& options);

/// Monitors memory: once warm, resident memory may not exceed the warm size plus a quarter, plus
/// `slack_bytes`.
class MemoryBound {
 public:
  explicit MemoryBound(std::uint64_t slack_bytes) : slack_bytes_(slack_bytes) {}
  /// Checks resident memory after the given number of closed devices. Returns an empty string
  /// unless memory grew too much.
  [[nodiscard]] std::string look(std::uint64_t resident_bytes, std::uint64_t devices_closed);

  /// The ends of the latest 4096 closed devices are kept: until then, memory grows.
  static constexpr std::uint64_t warm_devices = 2 * 4096;

 private:
  const std::uint64_t slack_bytes_;
  std::uint64_t warm_bytes_ = 0;
};

/// Resident bytes of this process; 0 where the system does not report them.
[[nodiscard]] std::uint64_t resident_bytes();

}  // namespace heddle::stress
