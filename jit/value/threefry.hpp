// Threefry-2x32, the counter-based generator of Salmon, Moraes, Dror and Shaw ("Parallel random
// numbers: as easy as 1, 2, 3", SC 2011): the host's form, which compiled code repeats. Pure.
#pragma once

#include <array>
#include <bit>
#include <cstdint>

namespace heddle::jit {

inline constexpr int threefry_rounds = 20;
inline constexpr int threefry_light_rounds = 12;
inline constexpr std::array<int, 8> threefry_rotations{13, 15, 26, 6, 17, 29, 16, 24};
inline constexpr std::uint32_t threefry_parity = 0x1bd11bdau;

/// `key`, `counter` and the result hold word 0 in their low half.
constexpr std::uint64_t threefry2x32(std::uint64_t key, std::uint64_t counter,
                                     int rounds) noexcept {
  const auto low = [](std::uint64_t v) { return static_cast<std::uint32_t>(v); };
  const std::array<std::uint32_t, 3> ks{low(key), low(key >> 32),
                                        threefry_parity ^ low(key) ^ low(key >> 32)};
  std::uint32_t x0 = low(counter) + ks[0];
  std::uint32_t x1 = low(counter >> 32) + ks[1];
  for (int round = 0; round < rounds; ++round) {
    x0 += x1;
    x1 = std::rotl(x1, threefry_rotations[static_cast<std::size_t>(round % 8)]) ^ x0;
    if (round % 4 == 3) {  // key injection after every fourth round
      const auto injection = static_cast<std::uint32_t>(round / 4 + 1);
      x0 += ks[injection % 3];
      x1 += ks[(injection + 1) % 3] + injection;
    }
  }
  return static_cast<std::uint64_t>(x0) | (static_cast<std::uint64_t>(x1) << 32);
}

}  // namespace heddle::jit
