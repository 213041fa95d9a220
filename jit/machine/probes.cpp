// See machine/probes.hpp.
#include "jit/machine/probes.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <new>
#include <utility>

#include "heddle/scheduler.hpp"
#include "jit/machine/pairs.hpp"
#include "jit/machine/rates.hpp"
#include "scheduler/threads/team.hpp"

namespace heddle::jit {
namespace {

using ProbeClock = std::chrono::steady_clock;

/// At least twice the last-level cache, and at most 128 MiB, because large machines share their
/// caches. A power of two.
std::size_t lines_for(std::size_t l3_bytes) {
  constexpr std::size_t least = std::size_t{16} << 20, most = std::size_t{128} << 20;
  return std::bit_ceil(std::clamp(2 * l3_bytes, least, most)) / cache_line_bytes;
}

}  // namespace

MachineProbes::MachineProbes(const Target& target)
    : l2_bytes_(static_cast<std::size_t>(target.l2_bytes)),
      l3_bytes_(static_cast<std::size_t>(target.l3_bytes)),
      lines_(lines_for(l3_bytes_)),
      from_(make_lines(lines_)),
      to_(make_lines(lines_)) {
  // One cycle through the lines, with no distance twice in a row: a linear congruential
  // generator has its full period where the multiplier is 1 modulo 4 and the increment is odd (Hull
  // and Dobell, 1962).
  constexpr std::uint64_t multiplier = 6364136223846793005, added = 1442695040888963407;
  for (std::size_t k = 0; k < lines_; ++k) from_[k].next = (multiplier * k + added) % lines_;
}

/// In pages of 2 MiB where available, to keep address translation out of the measurement.
MachineProbes::Lines MachineProbes::make_lines(std::size_t count) {
  constexpr std::size_t page = std::size_t{2} << 20;
  const std::size_t bytes = (count * sizeof(Line) + page - 1) / page * page;
  auto* const memory = static_cast<Line*>(std::aligned_alloc(page, bytes));
  if (memory == nullptr) throw std::bad_alloc();
  madvise(memory, bytes, MADV_HUGEPAGE);
  return Lines(std::uninitialized_fill_n(memory, count, Line{}) - count);
}
void MachineProbes::Free::operator()(Line* lines) const noexcept { std::free(lines); }

std::optional<double> MachineProbes::operator()(const MachineValue& value) {
  if (value.value == &MachineProfile::l2_copy_mb_s) return copy_mb_s(l2_bytes_ / 4);
  if (value.value == &MachineProfile::l3_copy_mb_s)
    return copy_mb_s(std::max(l2_bytes_, std::min(2 * l2_bytes_, l3_bytes_ / 4)));
  if (value.value == &MachineProfile::memory_copy_mb_s) {
    double best = 0;
    for (int k = 0; k < 5; ++k) best = std::max(best, copy_mb_s(lines_ * sizeof(Line)));
    return best;
  }
  if (value.value == &MachineProfile::peak_mflop_s) return measure_peak_operations() / 1e6;
  if (value.value == &MachineProfile::memory_load_ns) return memory_load_ns();
  if (available_processors() < 2) return std::nullopt;
  if (value.value == &MachineProfile::all_copy_mb_s) return all_copy_mb_s();
  if (value.value == &MachineProfile::line_transfer_ns) return measure_line_transfer_ns();
  return measure_part_ns();
}

double MachineProbes::copy_mb_s(std::size_t bytes) {
  const std::size_t whole = std::clamp<std::size_t>(bytes / 256 * 256, 256, lines_ * sizeof(Line));
  return measure_copy_bandwidth(to_.get(), from_.get(), whole) / 1e6;
}

/// Each thread copies a share of the same memory several times; the best time counts.
double MachineProbes::all_copy_mb_s() {
  constexpr std::chrono::milliseconds sample_time{80};
  const std::uint32_t parts = std::min<std::uint32_t>(available_processors(), 64);
  sched::Team team;
  sched::Crew crew("heddle-tune", parts - 1);
  for (std::uint32_t k = 0; k + 1 < parts; ++k) crew.assign(k, &team);
  struct Shares {
    Line *to, *from;
    std::size_t lines;  // of a share
  } shares{to_.get(), from_.get(), lines_ / parts / 4 * 4};
  std::chrono::nanoseconds best = std::chrono::nanoseconds::max();
  for (const auto end = ProbeClock::now() + sample_time; ProbeClock::now() < end;) {
    const auto begin = ProbeClock::now();
    team.run(
        parts,
        [](void* context, std::uint32_t part, std::uint32_t) noexcept {
          const Shares& all = *static_cast<Shares*>(context);
          copy_lines(all.to + part * all.lines, all.from + part * all.lines,
                     all.lines * sizeof(Line));
        },
        &shares);
    best = std::min<std::chrono::nanoseconds>(best, ProbeClock::now() - begin);
  }
  for (std::uint32_t k = 0; k + 1 < parts; ++k) crew.assign(k, nullptr);
  return static_cast<double>(shares.lines * sizeof(Line) * parts) * 1e3 /
         static_cast<double>(best.count());
}

double MachineProbes::memory_load_ns() {
  constexpr std::size_t steps = 20'000, samples = 10;
  std::chrono::nanoseconds best = std::chrono::nanoseconds::max();
  for (std::size_t sample = 0; sample < samples; ++sample) {
    const auto begin = ProbeClock::now();
    std::uint64_t at = at_;
    for (std::size_t k = 0; k < steps; ++k) at = from_[at].next;
    asm volatile("" : "+r"(at));  // keeps the walk
    best = std::min<std::chrono::nanoseconds>(best, ProbeClock::now() - begin);
    at_ = at;
  }
  return static_cast<double>(best.count()) / static_cast<double>(steps);
}

}  // namespace heddle::jit
