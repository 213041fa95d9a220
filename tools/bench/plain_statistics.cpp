// Statistics, finance and random numbers: see plain_written.hpp.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numbers>
#include <vector>

#include "tools/bench/plain_written.hpp"

namespace heddle::bench::plain {
namespace {

/// Threefry-2x32-20, as heddle/graph_ops.hpp numbers its keys and counters.
std::uint64_t threefry_of(std::uint64_t key, std::uint64_t counter) {
  constexpr int turns[8] = {13, 15, 26, 6, 17, 29, 16, 24};
  const auto k0 = static_cast<std::uint32_t>(key), k1 = static_cast<std::uint32_t>(key >> 32U);
  const std::uint32_t keys[3] = {k0, k1, k0 ^ k1 ^ 0x1bd11bdaU};
  std::uint32_t a = static_cast<std::uint32_t>(counter) + k0,
                b = static_cast<std::uint32_t>(counter >> 32U) + k1;
  for (std::uint32_t n = 0; n < 20; ++n) {
    a += b;
    b = std::rotl(b, turns[n % 8]) ^ a;
    if (n % 4 == 3) {
      a += keys[(n / 4 + 1) % 3];
      b += keys[(n / 4 + 2) % 3] + n / 4 + 1;
    }
  }
  return a | static_cast<std::uint64_t>(b) << 32U;
}

std::uint64_t folded(std::uint64_t key, std::uint64_t data) {
  return threefry_of(threefry_of(key, std::uint64_t{1} << 62U), data);
}

float upper_share(std::uint64_t bits) { return static_cast<float>(bits >> 40U) * 0x1p-24F; }

float normal_share(float x) { return 0.5F * (1 + std::erf(x / std::sqrt(2.0F))); }

}  // namespace

void spread(const PlainArrays& x) {
  const std::size_t count = x.size(0);
  const float* const in = x.at(0);
  float sum = 0, squares = 0;
  for (std::size_t k = 0; k < count; ++k) sum += in[k];
  const float mean = sum / static_cast<float>(count), bias = mean - x.at(1)[0];
  for (std::size_t k = 0; k < count; ++k) squares += (in[k] - mean) * (in[k] - mean);
  x.at(2)[0] = squares + bias * bias;
}

void normal_numbers(const PlainArrays& x) {
  const std::uint64_t key = folded(x.at<std::uint64_t>(0)[0], x.at<std::uint64_t>(1)[0]);
  float* __restrict out = x.at(2);
  for (std::size_t k = 0; k < x.size(2); ++k) {
    const std::uint64_t bits = threefry_of(key, k);
    const float angle = upper_share(bits << 32U) * (2 * std::numbers::pi_v<float>);
    out[k] = std::sqrt(-2 * std::log(1 - upper_share(bits))) * std::cos(angle);
  }
}

void pi_by_chance(const PlainArrays& x) {
  constexpr std::size_t count = 1'000'000;
  const std::uint64_t first = folded(x.at<std::uint64_t>(0)[0], 0),
                      second = folded(x.at<std::uint64_t>(0)[0], 1);
  std::size_t inside = 0;
  for (std::size_t k = 0; k < count; ++k) {
    const float a = upper_share(threefry_of(first, k)), b = upper_share(threefry_of(second, k));
    if (a * a + b * b < 1) ++inside;
  }
  x.at(1)[0] = 4 * static_cast<float>(inside) / static_cast<float>(count);
}

void black_scholes(const PlainArrays& x) {
  constexpr float rate = 0.02F, sigma = 0.3F;
  const float* __restrict spot = x.at(0);
  const float* __restrict strike = x.at(1);
  const float* __restrict years = x.at(2);
  float* __restrict out = x.at(3);
  for (std::size_t k = 0; k < x.size(0); ++k) {
    const float width = sigma * std::sqrt(years[k]);
    const float d1 =
        (std::log(spot[k] / strike[k]) + (rate + 0.5F * sigma * sigma) * years[k]) / width;
    out[k] = spot[k] * normal_share(d1) -
             strike[k] * std::exp(-rate * years[k]) * normal_share(d1 - width);
  }
}

void cumulative_returns(const PlainArrays& x) {
  const std::size_t days = x.extent(0, 0), assets = x.extent(0, 1);
  const float* __restrict in = x.at(0);
  float* __restrict out = x.at(1);
  std::vector<float> growth(assets, 1.0F);
  for (std::size_t i = 0; i < days; ++i) {
    for (std::size_t j = 0; j < assets; ++j) {
      growth[j] *= 1 + in[i * assets + j];
      out[i * assets + j] = growth[j] - 1;
    }
  }
}

void moving_average(const PlainArrays& x) {
  const std::size_t rows = x.extent(0, 0), columns = x.extent(0, 1), window = 20,
                    places = columns - window;
  const float* __restrict in = x.at(0);
  float* __restrict out = x.at(1);
  for (std::size_t i = 0; i < rows; ++i) {
    const float* const row = in + i * columns;
    float sum = 0;
    for (std::size_t j = 1; j <= window; ++j) sum += row[j];
    for (std::size_t j = 0; j < places; ++j) {
      out[i * places + j] = sum / static_cast<float>(window);
      if (j + 1 < places) sum += row[j + 1 + window] - row[j + 1];
    }
  }
}

void linear_regression(const PlainArrays& x) {
  const std::size_t rows = x.extent(0, 0), columns = x.extent(0, 1);
  const float* __restrict in = x.at(0);
  const float* __restrict y = x.at(1);
  float* __restrict w = x.at(3);
  for (std::size_t j = 0; j < columns; ++j) w[j] = x.at(2)[j];
  std::vector<float> gradient(columns);
  for (int step = 0; step < 20; ++step) {
    for (std::size_t j = 0; j < columns; ++j) gradient[j] = 0;
    for (std::size_t i = 0; i < rows; ++i) {
      float error = -y[i];
      for (std::size_t j = 0; j < columns; ++j) error += in[i * columns + j] * w[j];
      for (std::size_t j = 0; j < columns; ++j) gradient[j] += error * in[i * columns + j];
    }
    for (std::size_t j = 0; j < columns; ++j) w[j] -= 0.1F * gradient[j] / static_cast<float>(rows);
  }
}

void place_of_largest(const PlainArrays& x) {
  const float* const in = x.at(0);
  std::size_t best = 0;
  for (std::size_t k = 1; k < x.size(0); ++k) {
    if (in[k] > in[best]) best = k;
  }
  x.at<std::int64_t>(1)[0] = static_cast<std::int64_t>(best);
}

void sorted_rows(const PlainArrays& x) {
  const std::size_t columns = x.extent(0, 1);
  float* const out = x.at(1);
  std::copy_n(x.at(0), x.size(0), out);
  for (std::size_t k = 0; k < x.size(0); k += columns) std::sort(out + k, out + k + columns);
}

void power_of_three_halves(const PlainArrays& x) {
  const float* __restrict in = x.at(0);
  float* __restrict out = x.at(1);
  for (std::size_t k = 0; k < x.size(0); ++k) out[k] = std::pow(in[k], 1.5F);
}

void k_means_step(const PlainArrays& x) {
  const std::size_t points = x.extent(0, 0), wide = x.extent(0, 1), centres = x.extent(1, 0);
  const float* const p = x.at(0);
  const float* const c = x.at(1);
  float* const out = x.at(2);
  std::vector<float> counts(centres);
  std::fill_n(out, centres * wide, 0.0F);
  for (std::size_t i = 0; i < points; ++i) {
    std::size_t nearest = 0;
    float least = std::numeric_limits<float>::infinity();
    for (std::size_t k = 0; k < centres; ++k) {
      float distance = 0;
      for (std::size_t j = 0; j < wide; ++j) {
        const float apart = p[i * wide + j] - c[k * wide + j];
        distance += apart * apart;
      }
      if (distance < least) least = distance, nearest = k;
    }
    counts[nearest] += 1;
    for (std::size_t j = 0; j < wide; ++j) out[nearest * wide + j] += p[i * wide + j];
  }
  for (std::size_t k = 0; k < centres; ++k) {
    for (std::size_t j = 0; j < wide; ++j)
      out[k * wide + j] = counts[k] > 0 ? out[k * wide + j] / counts[k] : c[k * wide + j];
  }
}

void logsumexp_rows(const PlainArrays& x) {
  const std::size_t rows = x.extent(0, 0), columns = x.extent(0, 1);
  for (std::size_t i = 0; i < rows; ++i) {
    const float* const row = x.at(0) + i * columns;
    float top = row[0], sum = 0;
    for (std::size_t j = 0; j < columns; ++j) top = std::max(top, row[j]);
    for (std::size_t j = 0; j < columns; ++j) sum += std::exp(row[j] - top);
    x.at(1)[i] = top + std::log(sum);
  }
}

}  // namespace heddle::bench::plain
