// Images and grids of cells: see plain_written.hpp.
#include <algorithm>
#include <cmath>
#include <vector>

#include "tools/bench/plain_written.hpp"

namespace heddle::bench::plain {
namespace {

/// The pixel, or 0 outside of the image.
float pixel(const float* in, std::size_t rows, std::size_t columns, std::ptrdiff_t i,
            std::ptrdiff_t j) {
  const bool inside = i >= 0 && j >= 0 && i < static_cast<std::ptrdiff_t>(rows) &&
                      j < static_cast<std::ptrdiff_t>(columns);
  return inside ? in[i * static_cast<std::ptrdiff_t>(columns) + j] : 0;
}

}  // namespace

void blur(const PlainArrays& x) {
  constexpr float weights[5] = {1 / 16.0F, 4 / 16.0F, 6 / 16.0F, 4 / 16.0F, 1 / 16.0F};
  const std::size_t rows = x.extent(0, 0), columns = x.extent(0, 1);
  const float* __restrict in = x.at(0);
  float* __restrict out = x.at(1);
  std::vector<float> down(rows * columns);
  for (std::size_t i = 0; i < rows; ++i) {
    for (std::size_t j = 0; j < columns; ++j) {
      float sum = 0;
      for (std::size_t k = 0; k < 5; ++k) {
        if (i + k >= 2 && i + k < rows + 2) sum += weights[k] * in[(i + k - 2) * columns + j];
      }
      down[i * columns + j] = sum;
    }
  }
  for (std::size_t i = 0; i < rows; ++i) {
    for (std::size_t j = 0; j < columns; ++j) {
      float sum = 0;
      for (std::size_t k = 0; k < 5; ++k) {
        if (j + k >= 2 && j + k < columns + 2) sum += weights[k] * down[i * columns + j + k - 2];
      }
      out[i * columns + j] = sum;
    }
  }
}

void sobel(const PlainArrays& x) {
  const std::size_t rows = x.extent(0, 0), columns = x.extent(0, 1);
  const float* const in = x.at(0);
  float* const out = x.at(1);
  for (std::size_t row = 0; row < rows; ++row) {
    for (std::size_t column = 0; column < columns; ++column) {
      const auto i = static_cast<std::ptrdiff_t>(row), j = static_cast<std::ptrdiff_t>(column);
      const auto at = [&](std::ptrdiff_t di, std::ptrdiff_t dj) {
        return pixel(in, rows, columns, i + di, j + dj);
      };
      const float gx = at(-1, 1) + 2 * at(0, 1) + at(1, 1) - at(-1, -1) - 2 * at(0, -1) - at(1, -1);
      const float gy = at(1, -1) + 2 * at(1, 0) + at(1, 1) - at(-1, -1) - 2 * at(-1, 0) - at(-1, 1);
      out[row * columns + column] = std::sqrt(gx * gx + gy * gy);
    }
  }
}

void resize(const PlainArrays& x) {
  const std::size_t rows = x.extent(0, 0), columns = x.extent(0, 1), new_rows = x.extent(1, 0),
                    new_columns = x.extent(1, 1);
  const float* __restrict in = x.at(0);
  float* __restrict out = x.at(1);
  for (std::size_t i = 0; i < new_rows; ++i) {
    const float y =
        static_cast<float>(i) * (static_cast<float>(rows - 1) / static_cast<float>(new_rows - 1));
    const auto top = static_cast<std::size_t>(y), bottom = std::min(top + 1, rows - 1);
    const float fy = y - static_cast<float>(top);
    for (std::size_t j = 0; j < new_columns; ++j) {
      const float along = static_cast<float>(j) *
                          (static_cast<float>(columns - 1) / static_cast<float>(new_columns - 1));
      const auto left = static_cast<std::size_t>(along), right = std::min(left + 1, columns - 1);
      const float fx = along - static_cast<float>(left);
      const float above =
          in[top * columns + left] + (in[top * columns + right] - in[top * columns + left]) * fx;
      const float below = in[bottom * columns + left] +
                          (in[bottom * columns + right] - in[bottom * columns + left]) * fx;
      out[i * new_columns + j] = above + (below - above) * fy;
    }
  }
}

void mandelbrot(const PlainArrays& x) {
  const std::size_t columns = x.size(0), rows = x.size(1);
  const float* const real = x.at(0);
  const float* const imaginary = x.at(1);
  float* const out = x.at(2);
  for (std::size_t i = 0; i < rows; ++i) {
    for (std::size_t j = 0; j < columns; ++j) {
      float a = 0, b = 0;
      int steps = 0;
      while (steps < 50 && a * a + b * b <= 4) {
        const float next = a * a - b * b + real[j];
        b = 2 * a * b + imaginary[i];
        a = next;
        ++steps;
      }
      out[i * columns + j] = static_cast<float>(steps);
    }
  }
}

void game_of_life(const PlainArrays& x) {
  const std::size_t rows = x.extent(0, 0), columns = x.extent(0, 1);
  const std::int32_t* const in = x.at<std::int32_t>(0);
  std::int32_t* const out = x.at<std::int32_t>(1);
  for (std::size_t i = 0; i < rows; ++i) {
    for (std::size_t j = 0; j < columns; ++j) {
      std::int32_t alive = 0;
      for (std::size_t a = i == 0 ? 0 : i - 1; a <= std::min(i + 1, rows - 1); ++a) {
        for (std::size_t b = j == 0 ? 0 : j - 1; b <= std::min(j + 1, columns - 1); ++b)
          alive += in[a * columns + b];
      }
      const std::int32_t own = in[i * columns + j];
      out[i * columns + j] = alive - own == 3 || (alive - own == 2 && own == 1) ? 1 : 0;
    }
  }
}

}  // namespace heddle::bench::plain
