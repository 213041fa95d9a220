// The data set as the build unpacked it (embed.py), and its split.
#include "tools/demo/digits.hpp"

#include <algorithm>
#include <numeric>
#include <span>
#include <utility>

#include "heddle/host_array.hpp"

namespace heddle::demo {
namespace {

constexpr std::uint8_t digit_rows[] = {
#include "digits.inc"
};
constexpr std::size_t row_bytes = digit_pixels + 1;
static_assert(std::size(digit_rows) % row_bytes == 0, "whole rows: the pixels, then the label");
constexpr float ink_max = 16;

void append(Digits& to, const Digits& from, std::size_t image) {
  const auto first = from.pixels.begin() + static_cast<std::ptrdiff_t>(image * digit_pixels);
  to.pixels.insert(to.pixels.end(), first, first + digit_pixels);
  to.labels.push_back(from.labels[image]);
}

}  // namespace

Digits all_digits() {
  Digits digits;
  for (std::span<const std::uint8_t> rest(digit_rows); !rest.empty();
       rest = rest.subspan(row_bytes)) {
    for (const std::uint8_t pixel : rest.first(digit_pixels)) {
      digits.pixels.push_back(static_cast<float>(pixel) / ink_max);
    }
    digits.labels.push_back(rest[digit_pixels]);
  }
  return digits;
}

std::vector<std::size_t> permutation(std::size_t count, std::uint64_t seed) {
  const HostArray keys = HostArray::uniform({DType::f64, {static_cast<std::int64_t>(count)}}, seed);
  std::vector<std::size_t> order(count);
  std::iota(order.begin(), order.end(), std::size_t{0});
  // Equal draws keep their order, so that the permutation is the same on every machine.
  std::ranges::sort(
      order, {}, [draws = keys.values<double>()](std::size_t k) { return std::pair(draws[k], k); });
  return order;
}

DigitsSplit split(const Digits& digits, std::size_t test_count, std::uint64_t seed) {
  DigitsSplit parts;
  const std::vector<std::size_t> order = permutation(digits.size(), seed);
  for (std::size_t k = 0; k < order.size(); ++k) {
    append(k < test_count ? parts.test : parts.train, digits, order[k]);
  }
  return parts;
}

}  // namespace heddle::demo
