// Steps of simulations: see plain_written.hpp.
#include <algorithm>
#include <cmath>
#include <vector>

#include "tools/bench/plain_written.hpp"

namespace heddle::bench::plain {

void gravity(const PlainArrays& x) {
  const std::size_t count = x.extent(0, 0);
  const float* __restrict p = x.at(0);
  float* __restrict out = x.at(1);
  for (std::size_t i = 0; i < count; ++i) {
    float fx = 0, fy = 0, fz = 0;
    for (std::size_t j = 0; j < count; ++j) {
      const float dx = p[3 * j] - p[3 * i], dy = p[3 * j + 1] - p[3 * i + 1],
                  dz = p[3 * j + 2] - p[3 * i + 2];
      const float r2 = dx * dx + dy * dy + dz * dz + 0.01F;
      const float weight = 1 / (r2 * std::sqrt(r2));
      fx += dx * weight;
      fy += dy * weight;
      fz += dz * weight;
    }
    out[3 * i] = fx;
    out[3 * i + 1] = fy;
    out[3 * i + 2] = fz;
  }
}

void lennard_jones(const PlainArrays& x) {
  const std::size_t count = x.extent(0, 0);
  const float* __restrict p = x.at(0);
  float* __restrict out = x.at(1);
  for (std::size_t i = 0; i < count; ++i) {
    float fx = 0, fy = 0, fz = 0;
    for (std::size_t j = 0; j < count; ++j) {
      if (i == j) continue;
      const float dx = p[3 * i] - p[3 * j], dy = p[3 * i + 1] - p[3 * j + 1],
                  dz = p[3 * i + 2] - p[3 * j + 2];
      const float inverse = 1 / (dx * dx + dy * dy + dz * dz);
      const float sixth = inverse * inverse * inverse;
      const float force = 24 * (2 * sixth * sixth - sixth) * inverse;
      fx += force * dx;
      fy += force * dy;
      fz += force * dz;
    }
    out[3 * i] = fx;
    out[3 * i + 1] = fy;
    out[3 * i + 2] = fz;
  }
}

void neighbours_clamped(const PlainArrays& x) {
  const std::size_t count = x.size(0);
  const float* __restrict in = x.at(0);
  float* __restrict out = x.at(1);
  for (std::size_t k = 0; k < count; ++k) {
    const float left = in[k == 0 ? 0 : k - 1], right = in[k + 1 == count ? k : k + 1];
    out[k] = 0.25F * left + 0.5F * in[k] + 0.25F * right;
  }
}

void neighbours_padded(const PlainArrays& x) {
  const std::size_t count = x.size(0);
  const float* __restrict in = x.at(0);
  float* __restrict out = x.at(1);
  for (std::size_t k = 0; k < count; ++k) {
    const float left = k == 0 ? 0 : in[k - 1], right = k + 1 == count ? 0 : in[k + 1];
    out[k] = 0.25F * left + 0.5F * in[k] + 0.25F * right;
  }
}

void heat_step(const PlainArrays& x) {
  const std::size_t rows = x.extent(0, 0), columns = x.extent(0, 1);
  const float* __restrict u = x.at(0);
  float* __restrict out = x.at(1);
  for (std::size_t i = 0; i < rows; ++i) {
    for (std::size_t j = 0; j < columns; ++j) {
      const std::size_t at = i * columns + j;
      const float up = i > 0 ? u[at - columns] : 0, down = i + 1 < rows ? u[at + columns] : 0;
      const float left = j > 0 ? u[at - 1] : 0, right = j + 1 < columns ? u[at + 1] : 0;
      out[at] = 0.25F * (up + down + left + right);
    }
  }
}

void wave_step(const PlainArrays& x) {
  const std::size_t rows = x.extent(0, 0), columns = x.extent(0, 1);
  const float* __restrict u = x.at(0);
  const float* __restrict before = x.at(1);
  float* __restrict out = x.at(2);
  for (std::size_t i = 0; i < rows; ++i) {
    for (std::size_t j = 0; j < columns; ++j) {
      const std::size_t at = i * columns + j;
      const float up = i > 0 ? u[at - columns] : 0, down = i + 1 < rows ? u[at + columns] : 0;
      const float left = j > 0 ? u[at - 1] : 0, right = j + 1 < columns ? u[at + 1] : 0;
      out[at] = 2 * u[at] - before[at] + 0.1F * (up + down + left + right - 4 * u[at]);
    }
  }
}

void cloth(const PlainArrays& x) {
  const std::size_t points = x.extent(0, 0), edges = x.size(1);
  const float* __restrict p = x.at(0);
  const std::int64_t* __restrict from = x.at<std::int64_t>(1);
  const std::int64_t* __restrict to = x.at<std::int64_t>(2);
  float* __restrict out = x.at(3);
  for (std::size_t k = 0; k < 3 * points; ++k) out[k] = 0;
  for (std::size_t e = 0; e < edges; ++e) {
    const auto a = static_cast<std::size_t>(from[e]), b = static_cast<std::size_t>(to[e]);
    float d[3], squares = 0;
    for (std::size_t k = 0; k < 3; ++k) {
      d[k] = p[3 * b + k] - p[3 * a + k];
      squares += d[k] * d[k];
    }
    const float length = std::sqrt(squares);
    const float pull = 10 * (length - 0.1F) / length;
    for (std::size_t k = 0; k < 3; ++k) {
      out[3 * a + k] += pull * d[k];
      out[3 * b + k] -= pull * d[k];
    }
  }
}

void kalman_step(const PlainArrays& x) {
  constexpr std::size_t n = 4, m = 2;
  const float *state = x.at(0), *p = x.at(1), *f = x.at(2), *q = x.at(3), *h = x.at(4),
              *r = x.at(5), *z = x.at(6);
  float next[n] = {}, by_f[n * n], turned[n * n], wide[n * n], by_h[m * n], turned_h[n * m],
        s[m * m], ph[n * m], gain[n * m], apart[m], seen[m] = {}, kh[n * n], less[n * n];
  multiply(n, 1, n, f, state, next);
  multiply(n, n, n, f, p, by_f);
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < n; ++j) turned[i * n + j] = f[j * n + i];
    for (std::size_t j = 0; j < m; ++j) turned_h[i * m + j] = h[j * n + i];
  }
  multiply(n, n, n, by_f, turned, wide);
  for (std::size_t k = 0; k < n * n; ++k) wide[k] += q[k];
  multiply(m, n, n, h, wide, by_h);
  multiply(m, m, n, by_h, turned_h, s);
  for (std::size_t k = 0; k < m * m; ++k) s[k] += r[k];
  const float determinant = s[0] * s[3] - s[1] * s[2];
  const float inverse[m * m] = {s[3] / determinant, -s[1] / determinant, -s[2] / determinant,
                                s[0] / determinant};
  multiply(n, m, n, wide, turned_h, ph);
  multiply(n, m, m, ph, inverse, gain);
  multiply(m, 1, n, h, next, seen);
  for (std::size_t k = 0; k < m; ++k) apart[k] = z[k] - seen[k];
  multiply(n, 1, m, gain, apart, x.at(7));
  for (std::size_t k = 0; k < n; ++k) x.at(7)[k] += next[k];
  multiply(n, n, m, gain, h, kh);
  multiply(n, n, n, kh, wide, less);
  for (std::size_t k = 0; k < n * n; ++k) x.at(8)[k] = wide[k] - less[k];
}

}  // namespace heddle::bench::plain
