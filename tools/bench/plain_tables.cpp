// Groups of tables, graphs of edges and texts: see plain_written.hpp.
#include <algorithm>
#include <limits>
#include <vector>

#include "tools/bench/plain_written.hpp"

namespace heddle::bench::plain {

void group_sums(const PlainArrays& x) {
  const std::int64_t* const groups = x.at<std::int64_t>(0);
  const float* const values = x.at(1);
  float* const out = x.at(2);
  std::fill_n(out, x.size(2), 0.0F);
  for (std::size_t k = 0; k < x.size(0); ++k) out[groups[k]] += values[k];
}

void five_aggregates(const PlainArrays& x) {
  const std::int64_t* const groups = x.at<std::int64_t>(0);
  const float* const values = x.at(1);
  float *count = x.at(2), *sum = x.at(3), *squares = x.at(4), *least = x.at(5), *most = x.at(6);
  for (std::size_t g = 0; g < x.size(2); ++g) {
    count[g] = sum[g] = squares[g] = 0;
    least[g] = std::numeric_limits<float>::infinity();
    most[g] = -least[g];
  }
  for (std::size_t k = 0; k < x.size(0); ++k) {
    const std::int64_t g = groups[k];
    count[g] += 1;
    sum[g] += values[k];
    squares[g] += values[k] * values[k];
    least[g] = std::min(least[g], values[k]);
    most[g] = std::max(most[g], values[k]);
  }
}

void histogram(const PlainArrays& x) {
  const float* const in = x.at(0);
  std::int32_t* const out = x.at<std::int32_t>(1);
  std::fill_n(out, x.size(1), 0);
  for (std::size_t k = 0; k < x.size(0); ++k)
    ++out[static_cast<std::int32_t>(in[k] * static_cast<float>(x.size(1)))];
}

void page_rank_step(const PlainArrays& x) {
  const std::int64_t* const from = x.at<std::int64_t>(0);
  const std::int64_t* const to = x.at<std::int64_t>(1);
  const float* const rank = x.at(2);
  const float* const degree = x.at(3);
  float* const out = x.at(4);
  const std::size_t pages = x.size(2);
  std::fill_n(out, pages, 0.0F);
  for (std::size_t e = 0; e < x.size(0); ++e) out[to[e]] += rank[from[e]] / degree[from[e]];
  for (std::size_t k = 0; k < pages; ++k)
    out[k] = 0.15F / static_cast<float>(pages) + 0.85F * out[k];
}

void search_level(const PlainArrays& x) {
  const std::int64_t* const from = x.at<std::int64_t>(0);
  const std::int64_t* const to = x.at<std::int64_t>(1);
  const bool* const frontier = x.at<bool>(2);
  const bool* const visited = x.at<bool>(3);
  bool* const next = x.at<bool>(4);
  bool* const seen = x.at<bool>(5);
  for (std::size_t k = 0; k < x.size(2); ++k) {
    next[k] = false;
    seen[k] = visited[k];
  }
  for (std::size_t e = 0; e < x.size(0); ++e) {
    if (frontier[from[e]] && !visited[to[e]]) next[to[e]] = seen[to[e]] = true;
  }
}

void components_round(const PlainArrays& x) {
  const std::int64_t* const from = x.at<std::int64_t>(0);
  const std::int64_t* const to = x.at<std::int64_t>(1);
  std::int32_t* const out = x.at<std::int32_t>(3);
  const std::vector<std::int32_t> before(x.at<std::int32_t>(2), x.at<std::int32_t>(2) + x.size(2));
  std::copy(before.begin(), before.end(), out);
  for (std::size_t e = 0; e < x.size(0); ++e) {
    out[to[e]] = std::min(out[to[e]], before[static_cast<std::size_t>(from[e])]);
    out[from[e]] = std::min(out[from[e]], before[static_cast<std::size_t>(to[e])]);
  }
}

void count_of_trigrams(const PlainArrays& x) {
  const std::uint8_t* const text = x.at<std::uint8_t>(0);
  std::int32_t* const out = x.at<std::int32_t>(1);
  std::fill_n(out, x.size(1), 0);
  for (std::size_t k = 0; k + 2 < x.size(0); ++k)
    ++out[((text[k] * 31 + text[k + 1]) * 31 + text[k + 2]) % 4096];
}

void edit_distance_row(const PlainArrays& x) {
  const std::int32_t* const before = x.at<std::int32_t>(0);
  const std::int32_t* const letters = x.at<std::int32_t>(1);
  const std::int32_t letter = x.at<std::int32_t>(2)[0];
  std::int32_t* const out = x.at<std::int32_t>(3);
  out[0] = before[0] + 1;
  for (std::size_t j = 0; j < x.size(1); ++j) {
    const std::int32_t changed = before[j] + (letters[j] != letter ? 1 : 0);
    out[j + 1] = std::min(std::min(before[j + 1] + 1, out[j] + 1), changed);
  }
}

}  // namespace heddle::bench::plain
