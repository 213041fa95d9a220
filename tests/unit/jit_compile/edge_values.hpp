// Values at which arithmetic goes wrong, for each element type. Pure.
#pragma once

#include <cstdint>
#include <limits>
#include <random>
#include <type_traits>
#include <vector>

#include "support/compute_types.hpp"

namespace heddle::jit::testing {

/// At most `count` values: the edges first, then random bit patterns.
template <class T>
std::vector<T> edge_values(std::size_t count) {
  using L = std::numeric_limits<T>;
  std::vector<T> values;
  if constexpr (std::is_same_v<T, bool>) {
    values = {false, true};
  } else if constexpr (std::is_integral_v<T>) {
    for (const int v : {0, 1, 2, 3, 7, 13, -1, -2, -7}) values.push_back(static_cast<T>(v));
    values.insert(values.end(), {L::min(), L::max(), static_cast<T>(L::min() + 1),
                                 static_cast<T>(L::max() - 1), static_cast<T>(L::max() / 2)});
  } else {
    const T inf = L::infinity();
    values = {T(0),
              -T(0),
              T(1),
              T(-1),
              T(0.5),
              T(-2.5),
              T(3),
              L::max(),
              -L::max(),
              L::min(),
              L::denorm_min(),
              -L::denorm_min(),
              inf,
              -inf,
              L::quiet_NaN(),
              T(1) + L::epsilon(),
              T(1) - L::epsilon(),
              T(0.1),
              T(-123.456),
              T(88.7),
              T(2147483648.0),
              T(1e-8)};
  }
  std::mt19937_64 random(20240229);
  while (values.size() < count && !std::is_same_v<T, bool>) {
    if constexpr (std::is_floating_point_v<T>) {
      values.push_back(static_cast<T>(std::uniform_real_distribution<double>(-30, 30)(random)));
    } else {
      values.push_back(static_cast<T>(random()));
    }
  }
  if (values.size() > count) values.resize(count);
  return values;
}

}  // namespace heddle::jit::testing
