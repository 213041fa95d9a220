// Statistics, finance, random numbers, and functions of single numbers.
#include <cmath>
#include <vector>

#include "tools/bench/cases.hpp"
#include "tools/bench/written.hpp"

namespace heddle::bench {
namespace {

constexpr std::int64_t million = 1'000'000;

Node normal_below(const Node& x) { return 0.5 * (1.0 + erf(x / std::sqrt(2.0))); }

Node price_of_calls(const Node& spot, const Node& strike, const Node& years) {
  const double rate = 0.02, sigma = 0.3;
  const Node width = sigma * sqrt(years);
  const Node d1 = (log(spot / strike) + (rate + 0.5 * sigma * sigma) * years) / width;
  return spot * normal_below(d1) - strike * exp(-rate * years) * normal_below(d1 - width);
}

Node next_centres(const Graph& graph, const Node& points, const Node& centres) {
  const Node apart = expand_dims(points, {1}) - expand_dims(centres, {0});
  const Node nearest = argmin(sum(apart * apart, 2), 1);
  const Node zero = graph.constant(0.0F), one = graph.constant(1.0F);
  const Node sums = scatter(broadcast_to(zero, centres.dims()), {nearest}, points, Scatter::add);
  const Node counts = scatter(broadcast_to(zero, {centres.dims()[0]}), {nearest},
                              broadcast_to(one, {points.dims()[0]}), Scatter::add);
  return where(expand_dims(counts, {1}) > 0.0, sums / expand_dims(max(counts, 1.0), {1}), centres);
}

/// A function of a million numbers.
template <class Function>
WrittenModel of_million(const char* name, double low, double high, Function function,
                        void (*loops)(const PlainArrays&)) {
  return {name, "1M", {numbers({million}, low, high)}, by_executor(function), loops};
}

}  // namespace

void add_written_statistics(std::vector<Row>& rows) {
  std::vector<WrittenModel> models;
  models.push_back({"squares around the mean, and bias",
                    "1M",
                    {numbers({million}), one_number(0.4)},
                    by_executor([](const Node& x, const Node& a) {
                      const Node mu = mean(x);
                      return sum((x - mu) * (x - mu)) + (mu - a) * (mu - a);
                    }),
                    plain::spread,
                    5e-3});
  WrittenModel drawn{"normal numbers, fold_in(key, t)",
                     "1M",
                     {one_number(7, u64), one_number(3, u64)},
                     by_executor([](const Node& key, const Node& t) {
                       return random_normal(fold_in(key, t), {million});
                     }),
                     plain::normal_numbers,
                     1e-3};
  drawn.rivals_draw = true;
  models.push_back(drawn);
  WrittenModel chance{"pi by chance",
                      "1M",
                      {one_number(7, u64)},
                      by_executor([](const Node& key) {
                        const Node a = random_uniform(fold_in(key, 0), {million});
                        const Node b = random_uniform(fold_in(key, 1), {million});
                        return 4.0 * mean(cast(a * a + b * b < 1.0, f32));
                      }),
                      plain::pi_by_chance};
  chance.rivals_draw = true;
  models.push_back(chance);
  models.push_back(
      {"Black-Scholes",
       "1M",
       {numbers({million}, 50, 150), numbers({million}, 50, 150), numbers({million}, 0.1, 2)},
       by_executor(price_of_calls),
       plain::black_scholes,
       1e-3});
  models.push_back({"cumulative returns",
                    "1000 days, 1000 assets",
                    {numbers({1000, 1000}, -0.01, 0.01)},
                    by_executor([](const Node& x) { return cumprod(1.0 + x, 0) - 1.0; }),
                    plain::cumulative_returns,
                    1e-3});
  models.push_back({"moving average by cumsum",
                    "1000x1000, of 20",
                    {numbers({1000, 1000})},
                    by_executor([](const Node& x) {
                      const Node sums = cumsum(x);
                      return (slice(sums, 1, {.start = 20}) - slice(sums, 1, {0, -20})) / 20.0;
                    }),
                    plain::moving_average,
                    1e-3});
  models.push_back({"linear regression, 20 steps",
                    "1000x16",
                    {numbers({1000, 16}, -1, 1), numbers({1000}), numbers({16})},
                    by_executor([](const Node& x, const Node& y, Node w) {
                      for (int step = 0; step < 20; ++step) {
                        const Node error = matmul(x, w) - y;
                        w -= 0.1 * matmul(transpose(x), error) / x.dims()[0];
                      }
                      return w;
                    }),
                    plain::linear_regression,
                    1e-3});
  models.push_back(
      of_million("argmax", 0, 1, [](const Node& x) { return argmax(x); }, plain::place_of_largest));
  models.push_back({"sorted rows",
                    "256 of 1024",
                    {numbers({256, 1024})},
                    by_executor([](const Node& x) { return sort(x); }),
                    plain::sorted_rows});
  models.push_back(of_million(
      "x to the power of 1.5", 0, 10, [](const Node& x) { return pow(x, 1.5); },
      plain::power_of_three_halves));
  models.push_back({"step of k-means",
                    "10000x8, 16 centres",
                    {numbers({10'000, 8}), numbers({16, 8})},
                    by_executor(next_centres),
                    plain::k_means_step,
                    1e-3});
  models.push_back({"logsumexp of rows",
                    "1000x1000",
                    {numbers({1000, 1000}, -5, 5)},
                    by_executor([](const Node& x) { return logsumexp(x, 1); }),
                    plain::logsumexp_rows});
  add_written_rows(rows, "written-statistics", std::move(models));
}

}  // namespace heddle::bench
