// Kernels in parts while processors come and go: hosts compute on devices of any width and mode,
// and compare with width 1. Meanwhile virtual devices are opened and closed on the helping
// processors, and processors are removed from the affinity masks of the process's threads and given
// back. Runs round after round, each with its seed. One thread calls.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tools/stress/simulated_graph.hpp"

namespace heddle::stress {

struct WideOptions {
  std::string backend{};                         ///< "cc" or "gccjit"
  std::uint64_t seed = 1;                        ///< of the first round; each later round adds one
  std::optional<std::chrono::seconds> length{};  ///< unset: until stopped
  std::uint64_t works_max = 0;              ///< ends after this many compared kernels; 0: no bound
  const std::atomic<bool>* stop = nullptr;  ///< set: the run ends after this round
  /// Receives a progress line now and then.
  std::function<void(std::string_view)> progress{};
  /// A round that takes longer is stuck.
  std::chrono::seconds round_max{120};
};

struct WideResult {
  std::uint64_t rounds = 0, last_seed = 0;
  std::chrono::duration<double> time{0};
  std::vector<Seen> seen{};  ///< over all rounds; the first entry counts compared results
  std::string broken{};      ///< in the last round; empty: no failure
  bool stuck = false;        ///< threads still run: exit the process
  [[nodiscard]] std::uint64_t compared() const noexcept { return seen.empty() ? 0 : seen[0].times; }
  [[nodiscard]] std::string to_string() const;
};

/// Ends early with the first round that breaks an invariant. Throws Error as Backend::open() and
/// Backend::compile() do.
[[nodiscard]] WideResult run_wide(const WideOptions& options);

}  // namespace heddle::stress
