// See machine/rates.hpp.
#include "jit/machine/rates.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "jit/machine/rate_loops.hpp"
#include "jit/vector/target.hpp"

namespace heddle::jit {
namespace {

using RateClock = std::chrono::steady_clock;
constexpr auto sample_time = std::chrono::milliseconds(20);
constexpr std::size_t line_bytes = 64;
constexpr std::size_t step_bytes = 4 * line_bytes;  // four of the widest vectors

struct alignas(line_bytes) RateLine {
  std::uint64_t words[line_bytes / sizeof(std::uint64_t)];
};

const RateLoops& rate_loops() {
#if defined(__x86_64__)
  const Isa isa = native_target().isa;
  if (isa >= Isa::avx512) return avx512_rate_loops;
  if (isa >= Isa::avx2) return avx2_rate_loops;
#endif
  return basic_rate_loops;
}

/// Rounds per second of body(rounds), from the best of several pieces: a disturbance only makes
/// pieces slower.
template <class Body>
double best_rate(std::size_t rounds, const Body& body) {
  double best = 0;
  const auto end = RateClock::now() + sample_time;
  int passes = 0;
  for (auto from = RateClock::now(); from < end || passes < 2; ++passes) {
    body(rounds);
    const auto to = RateClock::now();
    best = std::max(best,
                    static_cast<double>(rounds) / std::chrono::duration<double>(to - from).count());
    from = to;
  }
  return best;
}

/// At least some microseconds of work.
std::size_t rounds_between_looks(std::size_t bytes) {
  return std::max<std::size_t>(1, (std::size_t{1} << 20) / bytes);
}

}  // namespace

double measure_peak_operations() {
  volatile float sink = 0;
  volatile float begin = 0.001F;
  float from[14];
  for (std::size_t k = 0; k < std::size(from); ++k) from[k] = begin * static_cast<float>(k + 1);
  const RateLoops& loops = rate_loops();
  const auto lanes = static_cast<double>(loops.vector_bytes / sizeof(float));
  return 12 * lanes * 2 *
         best_rate(100'000, [&](std::size_t rounds) { sink = loops.multiply_add(from, rounds); });
}

double measure_read_bandwidth(double bytes) {
  const double bounded = std::clamp(bytes, 4096.0, double{std::size_t{1} << 28});
  const std::size_t whole = static_cast<std::size_t>(bounded) / step_bytes * step_bytes;
  const auto lines = std::make_unique<RateLine[]>(whole / sizeof(RateLine));
  std::fill_n(lines.get(), whole / sizeof(RateLine), RateLine{{1, 2, 3, 4, 5, 6, 7, 8}});
  volatile std::uint64_t sink = 0;
  return static_cast<double>(whole) *
         best_rate(rounds_between_looks(whole), [&](std::size_t rounds) {
           for (std::size_t k = 0; k < rounds; ++k)
             sink = rate_loops().read_all(lines.get(), whole);
         });
}

double measure_copy_bandwidth(void* to, const void* from, std::size_t bytes) {
  return static_cast<double>(bytes) *
         best_rate(rounds_between_looks(bytes), [&](std::size_t rounds) {
           for (std::size_t k = 0; k < rounds; ++k) copy_lines(to, from, bytes);
         });
}

void copy_lines(void* to, const void* from, std::size_t bytes) noexcept {
  rate_loops().copy_all(to, from, bytes);
  asm volatile("" ::: "memory");  // keeps repeated copies
}

}  // namespace heddle::jit
