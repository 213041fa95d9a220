// The handwritten digits that the demo learns: 1,797 images of 8x8 pixels, part of the program.
// Data: E. Alpaydin, C. Kaynak (1998), UCI, CC BY 4.0 (data/README.md). Pure functions; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace heddle::demo {

inline constexpr std::size_t digit_pixels = 64;   ///< per image, row-major 8x8
inline constexpr std::size_t digit_classes = 10;  ///< labels are 0 to 9

struct Digits {
  std::vector<float> pixels;         ///< digit_pixels per image, 0 (paper) to 1 (ink)
  std::vector<std::uint8_t> labels;  ///< one per image
  [[nodiscard]] std::size_t size() const noexcept { return labels.size(); }
};

struct DigitsSplit {
  Digits train;
  Digits test;
};

/// All images, in the order of the data file.
[[nodiscard]] Digits all_digits();

/// The numbers 0 to count - 1 in an order decided by `seed` alone: the same on every machine.
[[nodiscard]] std::vector<std::size_t> permutation(std::size_t count, std::uint64_t seed);

/// Shuffles with `seed` and sets the first `test_count` images apart.
[[nodiscard]] DigitsSplit split(const Digits& digits, std::size_t test_count, std::uint64_t seed);

}  // namespace heddle::demo
