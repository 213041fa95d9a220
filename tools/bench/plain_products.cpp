// Products and what follows them: see plain_written.hpp.
#include <algorithm>
#include <cmath>
#include <vector>

#include "tools/bench/plain_written.hpp"

namespace heddle::bench::plain {
namespace {

/// The product of arguments `a` and `b`.
std::vector<float> product_of(const PlainArrays& x, std::size_t a, std::size_t b) {
  const std::size_t m = x.extent(a, 0), k = x.extent(a, 1), n = x.extent(b, 1);
  std::vector<float> c(m * n);
  multiply(m, n, k, x.at(a), x.at(b), c.data());
  return c;
}

}  // namespace

void multiply(std::size_t m, std::size_t n, std::size_t k, const float* __restrict a,
              const float* __restrict b, float* __restrict c) {
  for (std::size_t i = 0; i < m * n; ++i) c[i] = 0;
  for (std::size_t i = 0; i < m; ++i) {
    for (std::size_t l = 0; l < k; ++l) {
      for (std::size_t j = 0; j < n; ++j) c[i * n + j] += a[i * k + l] * b[l * n + j];
    }
  }
}

void one_product(const PlainArrays& x) {
  multiply(x.extent(0, 0), x.extent(1, 1), x.extent(0, 1), x.at(0), x.at(1), x.at(2));
}

void sum_of_two_products(const PlainArrays& x) {
  const std::vector<float> p = product_of(x, 0, 1), q = product_of(x, 2, 3);
  float* const out = x.at(4);
  for (std::size_t k = 0; k < p.size(); ++k) out[k] = p[k] + q[k];
}

void larger_of_two_products(const PlainArrays& x) {
  const std::vector<float> p = product_of(x, 0, 1), q = product_of(x, 2, 3);
  float* const out = x.at(4);
  for (std::size_t k = 0; k < p.size(); ++k) out[k] = std::max(p[k], q[k]);
}

void mean_of_product(const PlainArrays& x) {
  float sum = 0;
  const std::vector<float> p = product_of(x, 0, 1);
  for (const float each : p) sum += each;
  x.at(2)[0] = sum / static_cast<float>(p.size());
}

void row_sums_of_product(const PlainArrays& x) {
  const std::vector<float> p = product_of(x, 0, 1);
  const std::size_t rows = x.extent(0, 0), columns = x.extent(1, 1);
  for (std::size_t i = 0; i < rows; ++i) {
    float sum = 0;
    for (std::size_t j = 0; j < columns; ++j) sum += p[i * columns + j];
    x.at(2)[i] = sum;
  }
}

void column_sums_of_product(const PlainArrays& x) {
  const std::vector<float> p = product_of(x, 0, 1);
  const std::size_t rows = x.extent(0, 0), columns = x.extent(1, 1);
  float* const out = x.at(2);
  for (std::size_t j = 0; j < columns; ++j) out[j] = 0;
  for (std::size_t i = 0; i < rows; ++i) {
    for (std::size_t j = 0; j < columns; ++j) out[j] += p[i * columns + j];
  }
}

void windows_of_product(const PlainArrays& x) {
  const std::vector<float> p = product_of(x, 0, 1);
  const std::size_t rows = x.extent(0, 0), columns = x.extent(1, 1);
  float* __restrict out = x.at(2);
  for (std::size_t i = 0; i < rows; ++i) {
    const float* const row = p.data() + i * columns;
    for (std::size_t j = 0; j + 2 < columns; ++j)
      out[i * (columns - 2) + j] = row[j] + row[j + 1] + row[j + 2];
  }
}

void gated_product(const PlainArrays& x) {
  const std::vector<float> p = product_of(x, 0, 1);
  const std::size_t rows = x.extent(0, 0), half = x.extent(1, 1) / 2;
  float* __restrict out = x.at(2);
  for (std::size_t i = 0; i < rows; ++i) {
    for (std::size_t j = 0; j < half; ++j)
      out[i * half + j] = p[i * 2 * half + j] * p[i * 2 * half + half + j];
  }
}

void squared_error_of_product(const PlainArrays& x) {
  const std::vector<float> p = product_of(x, 0, 1);
  const float* const y = x.at(2);
  float sum = 0;
  for (std::size_t k = 0; k < p.size(); ++k) sum += (p[k] - y[k]) * (p[k] - y[k]);
  x.at(3)[0] = sum / static_cast<float>(p.size());
}

void hinge_loss(const PlainArrays& x) {
  const std::vector<float> p = product_of(x, 0, 1);
  const float* const y = x.at(2);
  float sum = 0;
  for (std::size_t k = 0; k < p.size(); ++k) sum += std::max(0.0F, 1 - y[k] * p[k]);
  x.at(3)[0] = sum / static_cast<float>(p.size());
}

void fourier_power(const PlainArrays& x) {
  const std::vector<float> real = product_of(x, 0, 1), imaginary = product_of(x, 0, 2);
  float* const out = x.at(3);
  for (std::size_t k = 0; k < real.size(); ++k)
    out[k] = real[k] * real[k] + imaginary[k] * imaginary[k];
}

void covariance(const PlainArrays& x) {
  const std::size_t rows = x.extent(0, 0), columns = x.extent(0, 1);
  const float* __restrict in = x.at(0);
  float* __restrict out = x.at(1);
  std::vector<float> mean(columns), centred(rows * columns);
  for (std::size_t i = 0; i < rows; ++i) {
    for (std::size_t j = 0; j < columns; ++j) mean[j] += in[i * columns + j];
  }
  for (std::size_t j = 0; j < columns; ++j) mean[j] /= static_cast<float>(rows);
  for (std::size_t i = 0; i < rows; ++i) {
    for (std::size_t j = 0; j < columns; ++j)
      centred[i * columns + j] = in[i * columns + j] - mean[j];
  }
  for (std::size_t k = 0; k < columns * columns; ++k) out[k] = 0;
  for (std::size_t i = 0; i < rows; ++i) {
    const float* const row = centred.data() + i * columns;
    for (std::size_t j = 0; j < columns; ++j) {
      for (std::size_t k = 0; k < columns; ++k) out[j * columns + k] += row[j] * row[k];
    }
  }
  for (std::size_t k = 0; k < columns * columns; ++k) out[k] /= static_cast<float>(rows - 1);
}

void power_iteration(const PlainArrays& x) {
  const std::size_t rows = x.extent(0, 0), columns = x.extent(0, 1);
  const float* __restrict in = x.at(0);
  float* __restrict v = x.at(2);
  for (std::size_t j = 0; j < columns; ++j) v[j] = x.at(1)[j];
  std::vector<float> next(columns);
  for (int step = 0; step < 10; ++step) {
    for (std::size_t j = 0; j < columns; ++j) next[j] = 0;
    for (std::size_t i = 0; i < rows; ++i) {
      float dot = 0;
      for (std::size_t j = 0; j < columns; ++j) dot += in[i * columns + j] * v[j];
      for (std::size_t j = 0; j < columns; ++j) next[j] += in[i * columns + j] * dot;
    }
    float squares = 0;
    for (std::size_t j = 0; j < columns; ++j) squares += next[j] * next[j];
    const float length = std::sqrt(squares);
    for (std::size_t j = 0; j < columns; ++j) v[j] = next[j] / length;
  }
}

}  // namespace heddle::bench::plain
