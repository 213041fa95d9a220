// See machine.hpp. Vector types, so that the compiler needs no flags of the processor's; each
// function is compiled for several processors and the best one is taken when the program is loaded.
#include "tools/explain/machine.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace heddle::tools {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto sample_time = std::chrono::milliseconds(20);
constexpr std::size_t lanes = 16;
using Vector [[gnu::vector_size(lanes * sizeof(float))]] = float;
using Line [[gnu::vector_size(64)]] = std::uint64_t;

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define HEDDLE_FOR_PROCESSORS [[gnu::target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")]]
#else
#define HEDDLE_FOR_PROCESSORS
#endif

/// Twelve chains: more than a multiply-add takes cycles times the units that do them. `from` holds
/// their beginnings, which the compiler must not know: equal chains become one.
HEDDLE_FOR_PROCESSORS float multiply_add(const Vector* from, std::size_t rounds) {
  Vector a0 = from[0], a1 = from[1], a2 = from[2], a3 = from[3], a4 = from[4], a5 = from[5];
  Vector a6 = from[6], a7 = from[7], a8 = from[8], a9 = from[9], a10 = from[10], a11 = from[11];
  const Vector x = from[12];
  const Vector y = from[13];
  for (std::size_t k = 0; k < rounds; ++k) {
    a0 = a0 * x + y, a1 = a1 * x + y, a2 = a2 * x + y, a3 = a3 * x + y;
    a4 = a4 * x + y, a5 = a5 * x + y, a6 = a6 * x + y, a7 = a7 * x + y;
    a8 = a8 * x + y, a9 = a9 * x + y, a10 = a10 * x + y, a11 = a11 * x + y;
  }
  const Vector sum = a0 + a1 + a2 + a3 + a4 + a5 + a6 + a7 + a8 + a9 + a10 + a11;
  return sum[0];
}

HEDDLE_FOR_PROCESSORS std::uint64_t read_all(const Line* words, std::size_t count) {
  Line a{}, b{}, c{}, d{};
  for (std::size_t k = 0; k + 4 <= count; k += 4) {
    a ^= words[k];
    b ^= words[k + 1];
    c ^= words[k + 2];
    d ^= words[k + 3];
  }
  const Line all = a ^ b ^ c ^ d;
  return all[0] ^ all[7];
}

/// Rounds per second of body(rounds), in pieces of which the best counts: others disturb.
template <class Body>
double best_rate(std::size_t rounds, const Body& body) {
  double best = 0;
  const auto end = Clock::now() + sample_time;
  int passes = 0;
  for (auto from = Clock::now(); from < end || passes < 2; ++passes) {
    body(rounds);
    const auto to = Clock::now();
    best = std::max(best,
                    static_cast<double>(rounds) / std::chrono::duration<double>(to - from).count());
    from = to;
  }
  return best;
}

}  // namespace

double measure_peak_operations() {
  volatile float sink = 0;
  volatile float begin = 0.001F;
  Vector from[14];
  for (std::size_t k = 0; k < std::size(from); ++k)
    from[k] = Vector{} + begin * static_cast<float>(k + 1);
  constexpr double operations_per_round = 12 * lanes * 2;
  return operations_per_round *
         best_rate(100'000, [&](std::size_t rounds) { sink = multiply_add(from, rounds); });
}

double measure_read_bandwidth(double bytes) {
  const double bounded = std::clamp(bytes, 4096.0, double{std::size_t{1} << 28});
  const std::size_t count = static_cast<std::size_t>(bounded) / sizeof(Line) / 4 * 4;
  const std::unique_ptr<Line[]> words(new Line[count]);
  std::fill_n(words.get(), count, Line{1, 2, 3, 4, 5, 6, 7, 8});
  volatile std::uint64_t sink = 0;
  // At least some microseconds between two looks at the clock.
  const std::size_t repeats = std::max<std::size_t>(1, (std::size_t{1} << 20) / count / 64);
  const double passes = best_rate(repeats, [&](std::size_t rounds) {
    for (std::size_t k = 0; k < rounds; ++k) sink = read_all(words.get(), count);
  });
  return passes * static_cast<double>(count * sizeof(Line));
}

}  // namespace heddle::tools
