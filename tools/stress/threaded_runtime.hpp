// Random work for the whole tensor runtime, by threads on the devices of a backend: what simulated
// hosts do (simulated_runtime.hpp), at whatever timing the machine has. Round after round, each of
// a seed; memory must hold in the end what the model says. One thread calls.
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
  std::uint64_t seed = 1;  ///< the first round's; the next has the next one
  std::optional<std::uint64_t> hosts{}, devices{};  ///< of a round; unset: drawn
  std::optional<std::chrono::seconds> length{};     ///< unset: until stopped
  std::uint64_t works_max = 0;  ///< ends once so many works were accepted; 0: any number
  const std::atomic<bool>* stop = nullptr;  ///< set: it ends after this round
  /// Gets a line now and then.
  std::function<void(std::string_view)> progress{};
  /// A round that takes longer is stuck.
  std::chrono::seconds round_max{120};
  Planted planted = Planted::nothing;
  /// Memory is warm then.
  std::chrono::seconds warm{300};
};

struct ThreadedResult {
  std::uint64_t rounds = 0, last_seed = 0;
  std::chrono::duration<double> time{0};
  std::vector<Seen> seen{};  ///< in all rounds; the first are the works that were accepted
  std::uint64_t warm_bytes = 0, end_bytes = 0;  ///< resident; 0: it never was
  std::string broken{};                         ///< in the last round; empty: all well
  bool stuck = false;                           ///< its threads still run: leave the process
  [[nodiscard]] std::uint64_t works() const noexcept { return seen.empty() ? 0 : seen[0].times; }
  [[nodiscard]] std::string to_string() const;
};

/// `backend` compiles; each round opens one or two of that name. Ends early with the first round
/// that breaks something. Throws Error as Backend::open() and Backend::compile() do.
[[nodiscard]] ThreadedResult run_threaded(const Backend& backend, const ThreadedOptions& options);

}  // namespace heddle::stress
