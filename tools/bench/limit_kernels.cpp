// See limit_kernels.hpp.
#include "tools/bench/limit_kernels.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#ifdef __AVX512F__
#include <immintrin.h>
#endif

namespace heddle::bench {

bool limits_are_written() noexcept {
#ifdef __AVX512F__
  return true;
#else
  return false;
#endif
}

// Named registers: a compiler spills arrays of sums.
void limit_multiply_adds([[maybe_unused]] std::size_t rounds) {
#ifdef __AVX512F__
  asm volatile("vpxord %%zmm30, %%zmm30, %%zmm30" : : : "xmm30");
  for (; rounds > 0; --rounds) {
#define HEDDLE_FMA(k) "vfmadd231ps %%zmm30, %%zmm30, %%zmm" #k "\n\t"
    asm volatile(HEDDLE_FMA(0) HEDDLE_FMA(1) HEDDLE_FMA(2) HEDDLE_FMA(3) HEDDLE_FMA(4) HEDDLE_FMA(5)
                     HEDDLE_FMA(6) HEDDLE_FMA(7) HEDDLE_FMA(8) HEDDLE_FMA(9) HEDDLE_FMA(10)
                         HEDDLE_FMA(11) HEDDLE_FMA(12) HEDDLE_FMA(13) HEDDLE_FMA(14) HEDDLE_FMA(15)
                             HEDDLE_FMA(16) HEDDLE_FMA(17) HEDDLE_FMA(18) HEDDLE_FMA(19)
                                 HEDDLE_FMA(20) HEDDLE_FMA(21) HEDDLE_FMA(22) HEDDLE_FMA(23)
                 :
                 :
                 : "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9",
                   "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15", "xmm16", "xmm17", "xmm18",
                   "xmm19", "xmm20", "xmm21", "xmm22", "xmm23");
#undef HEDDLE_FMA
  }
#endif
}

// A tile of 12 x 2 vectors: a row of b, and an element of a broadcast to all lanes for each two
// vectors.
void limit_multiply_adds_from_cache([[maybe_unused]] std::size_t rounds) {
#ifdef __AVX512F__
  alignas(64) static const auto factors = [] {
    std::array<float, 48> values{};
    for (std::size_t k = 0; k < values.size(); ++k)
      values[k] = (static_cast<float>(k * 37 % 48) - 23.5F) / 64.0F;
    return values;
  }();
  for (; rounds > 0; --rounds) {
#define HEDDLE_ROW(place, k, l)            \
  "vbroadcastss " #place                   \
  "*4(%0), %%zmm26\n\t"                    \
  "vfmadd231ps %%zmm24, %%zmm26, %%zmm" #k \
  "\n\t"                                   \
  "vfmadd231ps %%zmm25, %%zmm26, %%zmm" #l "\n\t"
    asm volatile("vmovups 64(%0), %%zmm24\n\tvmovups 128(%0), %%zmm25\n\t" HEDDLE_ROW(0, 0, 1)
                     HEDDLE_ROW(1, 2, 3) HEDDLE_ROW(2, 4, 5) HEDDLE_ROW(3, 6, 7) HEDDLE_ROW(4, 8, 9)
                         HEDDLE_ROW(5, 10, 11) HEDDLE_ROW(6, 12, 13) HEDDLE_ROW(7, 14, 15)
                             HEDDLE_ROW(8, 16, 17) HEDDLE_ROW(9, 18, 19) HEDDLE_ROW(10, 20, 21)
                                 HEDDLE_ROW(11, 22, 23)
                 :
                 : "r"(factors.data())
                 : "memory", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8",
                   "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15", "xmm16", "xmm17",
                   "xmm18", "xmm19", "xmm20", "xmm21", "xmm22", "xmm23", "xmm24", "xmm25", "xmm26");
#undef HEDDLE_ROW
  }
#endif
}

#ifdef __AVX512F__
namespace {

constexpr std::size_t lanes = 16;

/// Calls body(offset) for each vector.
template <class Body>
inline void each_vector(std::size_t count, const Body& body) {
  for (std::size_t k = 0; k < count; k += lanes) body(k);
}

/// exp, within 2 ULP, for x <= 0: a polynomial on [-ln 2 / 2, ln 2 / 2] and a shift of the exponent
/// (Cody and Waite, 1980).
inline __m512 exp_vector(__m512 x) {
  const __m512 n = _mm512_roundscale_ps(_mm512_mul_ps(x, _mm512_set1_ps(1.44269504F)), 0x08);
  __m512 r = _mm512_fnmadd_ps(n, _mm512_set1_ps(0.693359375F), x);
  r = _mm512_fnmadd_ps(n, _mm512_set1_ps(-2.12194440e-4F), r);
  __m512 p = _mm512_set1_ps(1.0F / 720);
  for (const float c : {1.0F / 120, 1.0F / 24, 1.0F / 6, 0.5F, 1.0F, 1.0F})
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(c));
  return _mm512_scalef_ps(p, n);
}

/// Four chains over a row.
template <class Join, class Load>
inline __m512 reduce_vectors(std::size_t count, __m512 neutral, const Join& join,
                             const Load& load) {
  __m512 a = neutral, b = neutral, c = neutral, d = neutral;
  for (std::size_t k = 0; k < count; k += 4 * lanes) {
    a = join(a, load(k));
    b = join(b, load(k + lanes));
    c = join(c, load(k + 2 * lanes));
    d = join(d, load(k + 3 * lanes));
  }
  return join(join(a, b), join(c, d));
}

}  // namespace

void limit_elementwise(std::size_t count, const float* a, const float* b, const float* c,
                       const float* d, float* out, bool stream) {
  const auto value = [&](std::size_t k) {
    const __m512 x =
        _mm512_fmadd_ps(_mm512_loadu_ps(a + k), _mm512_loadu_ps(b + k), _mm512_loadu_ps(c + k));
    return _mm512_mul_ps(_mm512_max_ps(x, _mm512_setzero_ps()), _mm512_loadu_ps(d + k));
  };
  if (stream) {
    each_vector(count, [&](std::size_t k) { _mm512_stream_ps(out + k, value(k)); });
    _mm_sfence();
  } else {
    each_vector(count, [&](std::size_t k) { _mm512_storeu_ps(out + k, value(k)); });
  }
}

void limit_row_sums(std::size_t rows, std::size_t columns, const float* x, float* out) {
  for (std::size_t i = 0; i < rows; ++i) {
    const float* const row = x + i * columns;
    out[i] = _mm512_reduce_add_ps(reduce_vectors(
        columns, _mm512_setzero_ps(), [](__m512 s, __m512 v) { return _mm512_add_ps(s, v); },
        [row](std::size_t k) { return _mm512_loadu_ps(row + k); }));
  }
}

void limit_column_sums(std::size_t rows, std::size_t columns, const float* x, float* out) {
  std::fill_n(out, columns, 0.0F);
  for (std::size_t i = 0; i < rows; i += 4) {
    const float* const row = x + i * columns;
    each_vector(columns, [&](std::size_t k) {
      const auto at = [&](std::size_t r) { return _mm512_loadu_ps(row + r * columns + k); };
      const __m512 four = _mm512_add_ps(_mm512_add_ps(at(0), at(1)), _mm512_add_ps(at(2), at(3)));
      _mm512_storeu_ps(out + k, _mm512_add_ps(_mm512_loadu_ps(out + k), four));
    });
  }
}

void limit_softmax(std::size_t rows, std::size_t columns, const float* x, float* y) {
  for (std::size_t i = 0; i < rows; ++i) {
    const float* const from = x + i * columns;
    float* const to = y + i * columns;
    const __m512 top = _mm512_set1_ps(_mm512_reduce_max_ps(reduce_vectors(
        columns, _mm512_set1_ps(-std::numeric_limits<float>::infinity()),
        [](__m512 s, __m512 v) { return _mm512_max_ps(s, v); },
        [from](std::size_t k) { return _mm512_loadu_ps(from + k); })));
    __m512 sums[2] = {_mm512_setzero_ps(), _mm512_setzero_ps()};
    each_vector(columns, [&](std::size_t k) {
      const __m512 e = exp_vector(_mm512_sub_ps(_mm512_loadu_ps(from + k), top));
      _mm512_storeu_ps(to + k, e);
      __m512& sum = sums[k / lanes % 2];
      sum = _mm512_add_ps(sum, e);
    });
    const __m512 scale =
        _mm512_set1_ps(1.0F / _mm512_reduce_add_ps(_mm512_add_ps(sums[0], sums[1])));
    each_vector(columns, [&](std::size_t k) {
      _mm512_storeu_ps(to + k, _mm512_mul_ps(_mm512_loadu_ps(to + k), scale));
    });
  }
}

void limit_layernorm(std::size_t rows, std::size_t columns, const float* x, const float* gain,
                     const float* bias, float* y) {
  const float share = 1.0F / static_cast<float>(columns);
  const auto add = [](__m512 s, __m512 v) { return _mm512_add_ps(s, v); };
  for (std::size_t i = 0; i < rows; ++i) {
    const float* const from = x + i * columns;
    const __m512 mean =
        _mm512_set1_ps(share * _mm512_reduce_add_ps(reduce_vectors(
                                   columns, _mm512_setzero_ps(), add,
                                   [from](std::size_t k) { return _mm512_loadu_ps(from + k); })));
    const float variance =
        share *
        _mm512_reduce_add_ps(reduce_vectors(columns, _mm512_setzero_ps(), add, [&](std::size_t k) {
          const __m512 d = _mm512_sub_ps(_mm512_loadu_ps(from + k), mean);
          return _mm512_mul_ps(d, d);
        }));
    const __m512 scale = _mm512_set1_ps(1.0F / std::sqrt(variance + 1e-5F));
    each_vector(columns, [&](std::size_t k) {
      const __m512 d = _mm512_sub_ps(_mm512_loadu_ps(from + k), mean);
      const __m512 g = _mm512_mul_ps(scale, _mm512_loadu_ps(gain + k));
      _mm512_storeu_ps(y + i * columns + k, _mm512_fmadd_ps(d, g, _mm512_loadu_ps(bias + k)));
    });
  }
}

namespace {

/// A block of 16 x 16: pairs of elements, then pairs of pairs, are swapped within 16 bytes, then
/// the 16-byte groups.
inline void transpose_block(std::size_t side, const float* x, float* out) {
  __m512 a[lanes], b[lanes];
  for (std::size_t k = 0; k < lanes; k += 2) {
    const __m512 upper = _mm512_loadu_ps(x + k * side);
    const __m512 lower = _mm512_loadu_ps(x + (k + 1) * side);
    a[k] = _mm512_unpacklo_ps(upper, lower);
    a[k + 1] = _mm512_unpackhi_ps(upper, lower);
  }
  const auto pairs = [](__m512 v) { return _mm512_castps_pd(v); };
  for (std::size_t k = 0; k < lanes; k += 4) {
    for (const std::size_t half : {0U, 1U}) {
      const __m512d upper = pairs(a[k + half]);
      const __m512d lower = pairs(a[k + half + 2]);
      b[k + 2 * half] = _mm512_castpd_ps(_mm512_unpacklo_pd(upper, lower));
      b[k + 2 * half + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(upper, lower));
    }
  }
  for (std::size_t k = 0; k < 4; ++k) {
    const __m512 even = _mm512_shuffle_f32x4(b[k], b[k + 4], 0x88);
    const __m512 odd = _mm512_shuffle_f32x4(b[k], b[k + 4], 0xdd);
    const __m512 even_below = _mm512_shuffle_f32x4(b[k + 8], b[k + 12], 0x88);
    const __m512 odd_below = _mm512_shuffle_f32x4(b[k + 8], b[k + 12], 0xdd);
    _mm512_stream_ps(out + k * side, _mm512_shuffle_f32x4(even, even_below, 0x88));
    _mm512_stream_ps(out + (k + 4) * side, _mm512_shuffle_f32x4(odd, odd_below, 0x88));
    _mm512_stream_ps(out + (k + 8) * side, _mm512_shuffle_f32x4(even, even_below, 0xdd));
    _mm512_stream_ps(out + (k + 12) * side, _mm512_shuffle_f32x4(odd, odd_below, 0xdd));
  }
}

}  // namespace

void limit_transpose(std::size_t side, const float* x, float* out) {
  constexpr std::size_t page = 1024;  // rows written at a time, each in different pages
  for (std::size_t first = 0; first < side; first += page) {
    for (std::size_t i = 0; i < side; i += 2 * lanes) {
      for (std::size_t j = first; j < std::min(side, first + page); j += lanes) {
        transpose_block(side, x + i * side + j, out + j * side + i);
        transpose_block(side, x + (i + lanes) * side + j, out + j * side + i + lanes);
      }
    }
  }
  _mm_sfence();
}

void limit_copy(std::size_t count, const float* x, float* out) {
  each_vector(count, [&](std::size_t k) { _mm512_stream_ps(out + k, _mm512_loadu_ps(x + k)); });
  _mm_sfence();
}

#else

void limit_elementwise(std::size_t count, const float* a, const float* b, const float* c,
                       const float* d, float* out, bool /*stream*/) {
  for (std::size_t k = 0; k < count; ++k) out[k] = std::max(a[k] * b[k] + c[k], 0.0F) * d[k];
}
void limit_row_sums(std::size_t rows, std::size_t columns, const float* x, float* out) {
  for (std::size_t i = 0; i < rows; ++i) {
    out[i] = 0;
    for (std::size_t j = 0; j < columns; ++j) out[i] += x[i * columns + j];
  }
}
void limit_column_sums(std::size_t rows, std::size_t columns, const float* x, float* out) {
  std::fill_n(out, columns, 0.0F);
  for (std::size_t i = 0; i < rows; ++i) {
    for (std::size_t j = 0; j < columns; ++j) out[j] += x[i * columns + j];
  }
}
void limit_softmax(std::size_t rows, std::size_t columns, const float* x, float* y) {
  for (std::size_t i = 0; i < rows; ++i) {
    const float* const from = x + i * columns;
    const float top = *std::max_element(from, from + columns);
    float sum = 0;
    for (std::size_t j = 0; j < columns; ++j) sum += y[i * columns + j] = std::exp(from[j] - top);
    for (std::size_t j = 0; j < columns; ++j) y[i * columns + j] /= sum;
  }
}
void limit_layernorm(std::size_t rows, std::size_t columns, const float* x, const float* gain,
                     const float* bias, float* y) {
  for (std::size_t i = 0; i < rows; ++i) {
    const float* const from = x + i * columns;
    float mean = 0, variance = 0;
    for (std::size_t j = 0; j < columns; ++j) mean += from[j];
    mean /= static_cast<float>(columns);
    for (std::size_t j = 0; j < columns; ++j) variance += (from[j] - mean) * (from[j] - mean);
    const float scale = 1 / std::sqrt(variance / static_cast<float>(columns) + 1e-5F);
    for (std::size_t j = 0; j < columns; ++j)
      y[i * columns + j] = (from[j] - mean) * scale * gain[j] + bias[j];
  }
}
void limit_transpose(std::size_t side, const float* x, float* out) {
  for (std::size_t i = 0; i < side; ++i) {
    for (std::size_t j = 0; j < side; ++j) out[j * side + i] = x[i * side + j];
  }
}
void limit_copy(std::size_t count, const float* x, float* out) { std::copy_n(x, count, out); }

#endif

void limit_add(std::size_t count, const float* __restrict from, float* __restrict to) {
  for (std::size_t k = 0; k < count; ++k) to[k] += from[k];
}

void limit_update(std::size_t count, float a, float b, float* x) {
  for (std::size_t k = 0; k < count; ++k) x[k] = x[k] * a + b;
}

// A line of each array at a time, so that each line is read and written once.
void limit_all_reduce(std::size_t count, std::span<float* const> arrays) {
  constexpr std::size_t line = 64;
  for (std::size_t at = 0; at < count; at += line) {
    float sum[line];
    for (std::size_t k = 0; k < line; ++k) sum[k] = arrays[0][at + k];
    for (float* const array : arrays.subspan(1)) {
      for (std::size_t k = 0; k < line; ++k) sum[k] += array[at + k];
    }
    for (float* const array : arrays) {
      for (std::size_t k = 0; k < line; ++k) array[at + k] = sum[k];
    }
  }
}

}  // namespace heddle::bench
