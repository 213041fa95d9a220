// Networks and their steps of training: see plain_written.hpp.
#include <algorithm>
#include <cmath>
#include <vector>

#include "tools/bench/plain_written.hpp"

namespace heddle::bench::plain {
namespace {

float logistic(float x) { return 1 / (1 + std::exp(-x)); }

/// c = a^T b of k x m and k x n numbers.
void multiply_turned(std::size_t m, std::size_t n, std::size_t k, const float* __restrict a,
                     const float* __restrict b, float* __restrict c) {
  for (std::size_t i = 0; i < m * n; ++i) c[i] = 0;
  for (std::size_t l = 0; l < k; ++l) {
    for (std::size_t i = 0; i < m; ++i) {
      for (std::size_t j = 0; j < n; ++j) c[i * n + j] += a[l * m + i] * b[l * n + j];
    }
  }
}

/// relu of the convolution with filters of 3 x 3, and the largest of each 2 x 2 numbers.
std::vector<float> convolve_and_pool(std::size_t images, std::size_t channels, std::size_t side,
                                     const float* __restrict in, std::size_t filters,
                                     const float* __restrict w) {
  const std::size_t wide = side - 2, half = wide / 2;
  std::vector<float> seen(images * filters * wide * wide);
  for (std::size_t n = 0; n < images; ++n) {
    for (std::size_t f = 0; f < filters; ++f) {
      for (std::size_t y = 0; y < wide; ++y) {
        for (std::size_t x = 0; x < wide; ++x) {
          float sum = 0;
          for (std::size_t c = 0; c < channels; ++c) {
            for (std::size_t i = 0; i < 3; ++i) {
              for (std::size_t j = 0; j < 3; ++j)
                sum += in[((n * channels + c) * side + y + i) * side + x + j] *
                       w[((f * channels + c) * 3 + i) * 3 + j];
            }
          }
          seen[((n * filters + f) * wide + y) * wide + x] = std::max(0.0F, sum);
        }
      }
    }
  }
  std::vector<float> pooled(images * filters * half * half);
  for (std::size_t p = 0; p < images * filters; ++p) {
    for (std::size_t y = 0; y < half; ++y) {
      for (std::size_t x = 0; x < half; ++x) {
        const float* const at = seen.data() + (p * wide + 2 * y) * wide + 2 * x;
        pooled[(p * half + y) * half + x] =
            std::max(std::max(at[0], at[1]), std::max(at[wide], at[wide + 1]));
      }
    }
  }
  return pooled;
}

/// out = w - rate * gradient
void descend(std::size_t count, float rate, const float* __restrict w,
             const float* __restrict gradient, float* __restrict out) {
  for (std::size_t k = 0; k < count; ++k) out[k] = w[k] - rate * gradient[k];
}

void column_totals(std::size_t rows, std::size_t columns, const float* __restrict x,
                   float* __restrict out) {
  for (std::size_t j = 0; j < columns; ++j) out[j] = 0;
  for (std::size_t i = 0; i < rows; ++i) {
    for (std::size_t j = 0; j < columns; ++j) out[j] += x[i * columns + j];
  }
}

/// softmax(x w + b) - one_hot(labels), divided by the number of rows.
std::vector<float> error_of(std::size_t rows, std::size_t inputs, std::size_t classes,
                            const float* x, const float* w, const float* __restrict b,
                            const std::int64_t* __restrict labels) {
  std::vector<float> z(rows * classes);
  multiply(rows, classes, inputs, x, w, z.data());
  for (std::size_t i = 0; i < rows; ++i) {
    for (std::size_t j = 0; j < classes; ++j) z[i * classes + j] += b[j];
  }
  softmax_rows(rows, classes, z.data());
  for (std::size_t i = 0; i < rows; ++i) z[i * classes + static_cast<std::size_t>(labels[i])] -= 1;
  for (float& each : z) each /= static_cast<float>(rows);
  return z;
}

}  // namespace

void softmax_rows(std::size_t rows, std::size_t columns, float* x) {
  for (std::size_t i = 0; i < rows; ++i) {
    float* const row = x + i * columns;
    float top = row[0], sum = 0;
    for (std::size_t j = 0; j < columns; ++j) top = std::max(top, row[j]);
    for (std::size_t j = 0; j < columns; ++j) sum += row[j] = std::exp(row[j] - top);
    for (std::size_t j = 0; j < columns; ++j) row[j] /= sum;
  }
}

void lstm(const PlainArrays& x) {
  const std::size_t steps = x.extent(0, 0), batch = x.extent(0, 1), wide = x.extent(0, 2);
  const float* const b = x.at(3);
  float* const h = x.at(4);
  std::vector<float> c(batch * wide), by_input(batch * 4 * wide), by_state(batch * 4 * wide);
  std::fill_n(h, batch * wide, 0.0F);
  for (std::size_t t = 0; t < steps; ++t) {
    multiply(batch, 4 * wide, wide, x.at(0) + t * batch * wide, x.at(1), by_input.data());
    multiply(batch, 4 * wide, wide, h, x.at(2), by_state.data());
    for (std::size_t n = 0; n < batch; ++n) {
      for (std::size_t j = 0; j < wide; ++j) {
        const auto gate = [&](std::size_t which) {
          const std::size_t at = which * wide + j;
          return by_input[n * 4 * wide + at] + by_state[n * 4 * wide + at] + b[at];
        };
        float& cell = c[n * wide + j];
        cell = logistic(gate(1)) * cell + logistic(gate(0)) * std::tanh(gate(2));
        h[n * wide + j] = logistic(gate(3)) * std::tanh(cell);
      }
    }
  }
}

void conv_net(const PlainArrays& x) {
  const std::size_t images = x.extent(0, 0), side = x.extent(0, 2), first = x.extent(1, 0),
                    second = x.extent(2, 0), features = x.extent(3, 0), classes = x.extent(3, 1);
  const std::vector<float> seen =
      convolve_and_pool(images, x.extent(0, 1), side, x.at(0), first, x.at(1));
  const std::vector<float> again =
      convolve_and_pool(images, first, (side - 2) / 2, seen.data(), second, x.at(2));
  multiply(images, classes, features, again.data(), x.at(3), x.at(4));
}

void perceptron_step(const PlainArrays& x) {
  const std::size_t rows = x.extent(0, 0), inputs = x.extent(0, 1), hidden = x.extent(2, 1),
                    classes = x.extent(4, 1);
  const float* const b1 = x.at(3);
  const float* const w2 = x.at(4);
  std::vector<float> h(rows * hidden);
  multiply(rows, hidden, inputs, x.at(0), x.at(2), h.data());
  for (std::size_t i = 0; i < rows; ++i) {
    for (std::size_t j = 0; j < hidden; ++j)
      h[i * hidden + j] = std::max(0.0F, h[i * hidden + j] + b1[j]);
  }
  const std::vector<float> dz =
      error_of(rows, hidden, classes, h.data(), w2, x.at(5), x.at<std::int64_t>(1));
  std::vector<float> dh(rows * hidden);
  for (std::size_t i = 0; i < rows; ++i) {
    for (std::size_t j = 0; j < hidden; ++j) {
      float sum = 0;
      for (std::size_t k = 0; k < classes; ++k) sum += dz[i * classes + k] * w2[j * classes + k];
      dh[i * hidden + j] = h[i * hidden + j] > 0 ? sum : 0;
    }
  }
  constexpr float rate = 0.1F;
  std::vector<float> gradient(std::max(inputs, classes) * hidden);
  multiply_turned(inputs, hidden, rows, x.at(0), dh.data(), gradient.data());
  descend(inputs * hidden, rate, x.at(2), gradient.data(), x.at(6));
  column_totals(rows, hidden, dh.data(), gradient.data());
  descend(hidden, rate, b1, gradient.data(), x.at(7));
  multiply_turned(hidden, classes, rows, h.data(), dz.data(), gradient.data());
  descend(hidden * classes, rate, w2, gradient.data(), x.at(8));
  column_totals(rows, classes, dz.data(), gradient.data());
  descend(classes, rate, x.at(5), gradient.data(), x.at(9));
}

void softmax_regression_step(const PlainArrays& x) {
  const std::size_t rows = x.extent(0, 0), inputs = x.extent(0, 1), classes = x.extent(2, 1);
  const std::vector<float> dz =
      error_of(rows, inputs, classes, x.at(0), x.at(2), x.at(3), x.at<std::int64_t>(1));
  constexpr float rate = 0.1F;
  std::vector<float> gradient(inputs * classes);
  multiply_turned(inputs, classes, rows, x.at(0), dz.data(), gradient.data());
  descend(inputs * classes, rate, x.at(2), gradient.data(), x.at(4));
  column_totals(rows, classes, dz.data(), gradient.data());
  descend(classes, rate, x.at(3), gradient.data(), x.at(5));
}

void attention_block(const PlainArrays& x) {
  const std::size_t tokens = x.extent(0, 0), wide = x.extent(0, 1), heads = 4, depth = wide / heads;
  const float* const in = x.at(0);
  std::vector<float> normal(tokens * wide), q(tokens * wide), k(tokens * wide), v(tokens * wide),
      mixed(tokens * wide), scores(tokens * tokens);
  for (std::size_t i = 0; i < tokens; ++i) {
    float sum = 0, squares = 0;
    for (std::size_t j = 0; j < wide; ++j) sum += in[i * wide + j];
    const float mean = sum / static_cast<float>(wide);
    for (std::size_t j = 0; j < wide; ++j)
      squares += (in[i * wide + j] - mean) * (in[i * wide + j] - mean);
    const float length = std::sqrt(squares / static_cast<float>(wide) + 1e-5F);
    for (std::size_t j = 0; j < wide; ++j)
      normal[i * wide + j] = (in[i * wide + j] - mean) / length * x.at(1)[j] + x.at(2)[j];
  }
  multiply(tokens, wide, wide, normal.data(), x.at(3), q.data());
  multiply(tokens, wide, wide, normal.data(), x.at(4), k.data());
  multiply(tokens, wide, wide, normal.data(), x.at(5), v.data());
  for (std::size_t head = 0; head < heads; ++head) {
    const std::size_t from = head * depth;
    for (std::size_t i = 0; i < tokens; ++i) {
      for (std::size_t j = 0; j < tokens; ++j) {
        float sum = 0;
        for (std::size_t d = from; d < from + depth; ++d) sum += q[i * wide + d] * k[j * wide + d];
        scores[i * tokens + j] = sum / std::sqrt(static_cast<float>(depth));
      }
    }
    softmax_rows(tokens, tokens, scores.data());
    for (std::size_t i = 0; i < tokens; ++i) {
      for (std::size_t j = 0; j < tokens; ++j) {
        for (std::size_t d = from; d < from + depth; ++d)
          mixed[i * wide + d] += scores[i * tokens + j] * v[j * wide + d];
      }
    }
  }
  multiply(tokens, wide, wide, mixed.data(), x.at(6), x.at(7));
  for (std::size_t n = 0; n < tokens * wide; ++n) x.at(7)[n] += in[n];
}

void cached_decode(const PlainArrays& x) {
  const std::size_t tokens = x.extent(0, 0), wide = x.extent(0, 1), heads = x.extent(5, 0),
                    longest = x.extent(5, 1), depth = x.extent(5, 2);
  float* const keys = x.at(5);
  float* const values = x.at(6);
  float* const out = x.at(7);
  std::vector<float> q(wide), k(wide), v(wide), mixed(wide), scores(longest);
  for (std::size_t t = 0; t < tokens; ++t) {
    const float* const in = x.at(0) + t * wide;
    const std::size_t place = longest - tokens + t;
    multiply(1, wide, wide, in, x.at(1), q.data());
    multiply(1, wide, wide, in, x.at(2), k.data());
    multiply(1, wide, wide, in, x.at(3), v.data());
    for (std::size_t head = 0; head < heads; ++head) {
      float* const its_keys = keys + head * longest * depth;
      float* const its_values = values + head * longest * depth;
      for (std::size_t d = 0; d < depth; ++d) {
        its_keys[place * depth + d] = k[head * depth + d];
        its_values[place * depth + d] = v[head * depth + d];
        mixed[head * depth + d] = 0;
      }
      for (std::size_t s = 0; s <= place; ++s) {
        float sum = 0;
        for (std::size_t d = 0; d < depth; ++d)
          sum += q[head * depth + d] * its_keys[s * depth + d];
        scores[s] = sum / std::sqrt(static_cast<float>(depth));
      }
      softmax_rows(1, place + 1, scores.data());
      for (std::size_t s = 0; s <= place; ++s) {
        for (std::size_t d = 0; d < depth; ++d)
          mixed[head * depth + d] += scores[s] * its_values[s * depth + d];
      }
    }
    multiply(1, wide, wide, mixed.data(), x.at(4), out);
    for (std::size_t j = 0; j < wide; ++j) out[j] += in[j];
  }
}

void embedding_bag(const PlainArrays& x) {
  const std::size_t bags = x.extent(1, 0), words = x.extent(1, 1), wide = x.extent(0, 1);
  const float* __restrict table = x.at(0);
  const std::int64_t* __restrict rows = x.at<std::int64_t>(1);
  float* __restrict out = x.at(2);
  for (std::size_t n = 0; n < bags; ++n) {
    for (std::size_t j = 0; j < wide; ++j) out[n * wide + j] = 0;
    for (std::size_t w = 0; w < words; ++w) {
      const float* const row = table + static_cast<std::size_t>(rows[n * words + w]) * wide;
      for (std::size_t j = 0; j < wide; ++j) out[n * wide + j] += row[j];
    }
    for (std::size_t j = 0; j < wide; ++j) out[n * wide + j] /= static_cast<float>(words);
  }
}

void gelu(const PlainArrays& x) {
  const std::size_t count = x.size(0);
  const float* __restrict in = x.at(0);
  float* __restrict out = x.at(1);
  for (std::size_t k = 0; k < count; ++k)
    out[k] = 0.5F * in[k] * (1 + std::erf(in[k] / std::sqrt(2.0F)));
}

}  // namespace heddle::bench::plain
