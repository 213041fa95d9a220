// Kernels in parts while processors come and go: hosts compute on devices of any width and mode,
// and compare with width 1; meanwhile virtual devices are opened and closed on the processors that
// help, and processors are taken out of the affinity masks of the process's threads and given back.
// Round after round, each of a seed. One thread calls.
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
  std::uint64_t seed = 1;                        ///< the first round's; the next has the next one
  std::optional<std::chrono::seconds> length{};  ///< unset: until stopped
  std::uint64_t works_max = 0;  ///< ends once so many kernels were compared; 0: any number
  const std::atomic<bool>* stop = nullptr;  ///< set: it ends after this round
  /// Gets a line now and then.
  std::function<void(std::string_view)> progress{};
  /// A round that takes longer is stuck.
  std::chrono::seconds round_max{120};
};

struct WideResult {
  std::uint64_t rounds = 0, last_seed = 0;
  std::chrono::duration<double> time{0};
  std::vector<Seen> seen{};  ///< in all rounds; the first are the results that were compared
  std::string broken{};      ///< in the last round; empty: all well
  bool stuck = false;        ///< its threads still run: leave the process
  [[nodiscard]] std::uint64_t compared() const noexcept { return seen.empty() ? 0 : seen[0].times; }
  [[nodiscard]] std::string to_string() const;
};

/// Ends early with the first round that breaks something. Throws Error as Backend::open() and
/// Backend::compile() do.
[[nodiscard]] WideResult run_wide(const WideOptions& options);

}  // namespace heddle::stress
