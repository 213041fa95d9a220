// Seed after seed.
#include "tools/stress/simulate.hpp"

#include <fmt/format.h>

#include "tools/stress/tally.hpp"

namespace heddle::stress {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::uint64_t repeat_every = 20;

GraphReport simulate_one(const SimulateOptions& options, std::uint64_t seed) {
  return options.one ? options.one(seed) : simulate_graph(graph_options(seed));
}

void repeat(SimulateResult& result, const SimulateOptions& options, const GraphReport& first) {
  const GraphReport again = simulate_one(options, first.seed);
  ++result.repeated;
  if (again.hash == first.hash && again.steps == first.steps) return;
  result.broken = Status(ErrorCode::internal,
                         fmt::format("seed {} went another way the second time: {} steps, hash "
                                     "{:016x}, then {} steps, hash {:016x}",
                                     first.seed, first.steps, first.hash, again.steps, again.hash));
}

}  // namespace

std::string SimulateResult::to_string() const {
  std::string text = fmt::format(
      "{} seeds ({} of them twice), {} steps, {:.0f} simulated seconds in {:.1f} s\nfaults:", seeds,
      repeated, steps, std::chrono::duration<double>(simulated).count(), time.count());
  for (std::size_t k = 0; k < faults.size(); ++k)
    text += fmt::format(" {} {}", faults[k], name(static_cast<SimulationFault>(k)));
  for (const auto& [what, times] : seen)
    text += fmt::format("{}{} {}", &what == &seen.front().what ? "\n" : ", ", times, what);
  return text;
}

SimulateResult simulate(const SimulateOptions& options) {
  SimulateResult result;
  const auto start = Clock::now();
  std::chrono::duration<double> next_line = progress_pause;
  for (std::uint64_t k = 0; k < options.seeds && result.broken.ok(); ++k) {
    if (options.stop != nullptr && options.stop->load()) break;
    const GraphReport report = simulate_one(options, options.seed + k);
    result.last_seed = report.seed;
    result.broken = report.status;
    ++result.seeds;
    result.steps += report.steps;
    result.simulated += report.simulated;
    if (result.seen.empty()) {
      result.seen = report.seen;
    } else {
      for (std::size_t at = 0; at < report.seen.size(); ++at)
        result.seen[at].times += report.seen[at].times;
    }
    for (std::size_t kind = 0; kind < report.faults.size(); ++kind)
      result.faults[kind] += report.faults[kind];
    if (report.status.ok() && report.seed % repeat_every == 0) repeat(result, options, report);
    result.time = Clock::now() - start;
    if (options.progress && result.time >= next_line) {
      next_line += progress_pause;
      options.progress(fmt::format("{:6.0f} s  {} seeds, {:.0f} seeds/s", result.time.count(),
                                   result.seeds,
                                   static_cast<double>(result.seeds) / result.time.count()));
    }
  }
  return result;
}

}  // namespace heddle::stress
