// Random work for the whole tensor runtime, by threads on the devices of a backend: the actions of
// simulated hosts (simulated_runtime.hpp), with the machine's own timing. Runs round after round,
// each with its seed; in the end memory must match the model. One thread calls.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "heddle/backend.hpp"
#include "tools/stress/planted.hpp"
#include "tools/stress/simulated_graph.hpp"

namespace heddle::stress {

struct ThreadedOptions {
  std::uint64_t seed = 1;  ///< of the first round; each later round adds one
  std::optional<std::uint64_t> hosts{}, devices{};  ///< of a round; unset: drawn
  std::optional<std::chrono::seconds> length{};     ///< unset: until stopped
  std::uint64_t works_max = 0;              ///< ends after this many accepted works; 0: no bound
  const std::atomic<bool>* stop = nullptr;  ///< set: the run ends after this round
  /// Receives a progress line now and then.
  std::function<void(std::string_view)> progress{};
  /// A round that takes longer is stuck.
  std::chrono::seconds round_max{120};
  Planted planted = Planted::nothing;
  /// After this time memory counts as warm.
  std::chrono::seconds warm{300};
};

struct ThreadedResult {
  std::uint64_t rounds = 0, last_seed = 0;
  std::chrono::duration<double> time{0};
  std::vector<Seen> seen{};  ///< over all rounds; the first entry counts accepted works
  std::uint64_t warm_bytes = 0, end_bytes = 0;  ///< resident; 0: not reached
  std::string broken{};                         ///< in the last round; empty: no failure
  bool stuck = false;                           ///< threads still run: exit the process
  [[nodiscard]] std::uint64_t works() const noexcept { return seen.empty() ? 0 : seen[0].times; }
  [[nodiscard]] std::string to_string() const;
};

/// `backend` compiles; each round opens one or two backends of that name. Ends early with the first
/// round that breaks an invariant. Throws Error as Backend::open() and Backend::compile() do.
[[nodiscard]] ThreadedResult run_threaded(const Backend& backend, const ThreadedOptions& options);

}  // namespace heddle::stress
