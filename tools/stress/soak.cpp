// Rounds, progress, memory.
#include "tools/stress/soak.hpp"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <fstream>
#include <utility>

#include "heddle/status.hpp"
#include "tools/stress/round.hpp"

namespace heddle::stress {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::uint64_t mib = 1U << 20;

/// Sanitizers keep freed memory for a while.
constexpr std::uint64_t slack_bytes =
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    1024 * mib;
#else
    64 * mib;
#endif

/// Room for stacks, queues and the allocator's arenas of all threads, most of it never touched.
/// With less room, allocations would fail in the middle of a round, where the scheduler's own
/// messages may fail too.
constexpr std::uint64_t address_space_bytes_min = 4096 * mib;

void require_address_space() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur >= address_space_bytes_min) return;
  throw Error(ErrorCode::exhausted,
              fmt::format("stress needs {} MiB of address space (ulimit -v allows {})",
                          address_space_bytes_min / mib, limit.rlim_cur / mib));
}

std::string speed(const Tally& tally, std::chrono::duration<double> time) {
  return fmt::format("{:.0f} tasks/s, {:.1f} rounds/s",
                     static_cast<double>(tally[Count::tasks]) / time.count(),
                     static_cast<double>(tally[Count::rounds]) / time.count());
}

}  // namespace

std::uint64_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  std::uint64_t size = 0, resident = 0;
  if (!(file >> size >> resident)) return 0;
  return resident * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

std::string MemoryBound::look(std::uint64_t resident, std::uint64_t devices_closed) {
  if (devices_closed < warm_devices) return {};
  if (warm_bytes_ == 0) warm_bytes_ = resident;
  const std::uint64_t most = warm_bytes_ + warm_bytes_ / 4 + slack_bytes_;
  if (resident <= most) return {};
  return fmt::format(
      "memory grows: {} MiB are resident after {} devices, expected at most {} ({} "
      "when it was warm)",
      resident / mib, devices_closed, most / mib, warm_bytes_ / mib);
}

std::string SoakResult::to_string() const {
  return fmt::format("{} in {:.1f} s\n{}", speed(tally, time), time.count(), tally.to_string());
}

SoakResult soak(const SoakOptions& options) {
  require_address_space();
  SoakResult result;
  MemoryBound memory(slack_bytes);
  const auto start = Clock::now();
  std::chrono::duration<double> next_line = progress_pause;
  const auto over = [&] {
    if (!result.broken.empty() || (options.stop != nullptr && options.stop->load())) return true;
    if (options.rounds_max != 0 && result.tally[Count::rounds] >= options.rounds_max) return true;
    return options.length && result.time >= *options.length;
  };
  RoundOptions round;
  round.trace = options.trace;
  for (round.seed = options.seed; !over(); ++round.seed) {
    RoundResult one = run_round(round);
    result.last_seed = round.seed;
    result.tally += one.tally;
    result.broken = std::move(one.broken);
    result.stuck = one.stuck;
    if (one.trace) result.trace = std::move(one.trace);
    result.time = Clock::now() - start;
    if (!result.broken.empty()) break;
    const std::uint64_t resident = resident_bytes();
    std::string grown = memory.look(resident, result.tally[Count::devices]);
    if (!grown.empty()) result.broken.push_back(std::move(grown));
    if (options.progress && result.time >= next_line) {
      next_line += progress_pause;
      options.progress(fmt::format("{:6.0f} s  {}, {} tasks, seed {}, {} MiB", result.time.count(),
                                   speed(result.tally, result.time), result.tally[Count::tasks],
                                   result.last_seed, resident / mib));
    }
  }
  return result;
}

}  // namespace heddle::stress
