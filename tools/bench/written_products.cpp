// Products of matrices, and what users compute of them.
#include <fmt/format.h>

#include <cmath>
#include <numbers>
#include <vector>

#include "tools/bench/cases.hpp"
#include "tools/bench/written.hpp"

namespace heddle::bench {
namespace {

constexpr std::int64_t product_side = 256;
constexpr std::int64_t signal = 256;  ///< samples

WrittenInput square_matrix(std::int64_t n = product_side) { return numbers({n, n}, -1, 1); }

/// The matrix of cosines, or of sines, that makes a spectrum of a signal.
WrittenInput waves(double shift) {
  return {{f32, {signal, signal}}, [shift](double, std::int64_t k) {
            const auto turns = static_cast<double>(k / signal * (k % signal) % signal) / signal;
            return std::cos(2 * std::numbers::pi * turns - shift);
          }};
}

WrittenModel two_products(std::int64_t n) {
  return {"sum of two products",
          fmt::format("{0}x{0}", n),
          {square_matrix(n), square_matrix(n), square_matrix(n), square_matrix(n)},
          by_executor([](const Node& a, const Node& b, const Node& c, const Node& d) {
            return matmul(a, b) + matmul(c, d);
          }),
          plain::sum_of_two_products};
}

WrittenModel one_call(std::int64_t n) {
  return {"one product",
          fmt::format("{0}x{0}", n),
          {square_matrix(n), square_matrix(n)},
          by_executor([](const Node& a, const Node& b) { return matmul(a, b); }),
          plain::one_product};
}

/// A function of the product of two matrices.
template <class Function>
WrittenModel of_product(const char* name, Function function, void (*loops)(const PlainArrays&)) {
  return {name,
          fmt::format("{0}x{0}", product_side),
          {square_matrix(), square_matrix()},
          by_executor([function](const Node& a, const Node& b) { return function(matmul(a, b)); }),
          loops,
          1e-3};
}

/// A function of a product of rows and weights, and of as many numbers.
template <class Function>
WrittenModel of_error(const char* name, Function function, void (*loops)(const PlainArrays&)) {
  return {name,
          "512x256 by 256x64",
          {numbers({512, 256}, -1, 1), numbers({256, 64}, -1, 1), numbers({512, 64}, -1, 1)},
          by_executor([function](const Node& x, const Node& w, const Node& y) {
            return function(matmul(x, w), y);
          }),
          loops,
          1e-3};
}

}  // namespace

void add_written_products(std::vector<Row>& rows) {
  std::vector<WrittenModel> models{one_call(8), one_call(16), one_call(32), two_products(128),
                                   two_products(256)};
  models.push_back({"larger of two products",
                    "256x256",
                    {square_matrix(), square_matrix(), square_matrix(), square_matrix()},
                    by_executor([](const Node& a, const Node& b, const Node& c, const Node& d) {
                      return max(matmul(a, b), matmul(c, d));
                    }),
                    plain::larger_of_two_products});
  models.push_back(of_product(
      "mean of a product", [](const Node& p) { return mean(p); }, plain::mean_of_product));
  models.push_back(of_product(
      "row sums of a product", [](const Node& p) { return sum(p, 1); },
      plain::row_sums_of_product));
  models.push_back(of_product(
      "column sums of a product", [](const Node& p) { return sum(p, 0); },
      plain::column_sums_of_product));
  models.push_back(of_product(
      "three neighbours in a product",
      [](const Node& p) {
        return slice(p, 1, {0, -2}) + slice(p, 1, {1, -1}) + slice(p, 1, {.start = 2});
      },
      plain::windows_of_product));
  models.push_back(of_product(
      "halves of a product, multiplied",
      [](const Node& p) {
        const std::vector<Node> halves = split(p, 2, 1);
        return halves[0] * halves[1];
      },
      plain::gated_product));
  models.push_back(of_error(
      "squared error of a product",
      [](const Node& p, const Node& y) {
        const Node error = p - y;
        return mean(error * error);
      },
      plain::squared_error_of_product));
  models.push_back(of_error(
      "hinge loss of a product",
      [](const Node& p, const Node& y) { return mean(max(0.0, 1.0 - y * p)); }, plain::hinge_loss));
  models.push_back({"spectrum by products",
                    "64 signals of 256",
                    {numbers({64, signal}, -1, 1), waves(0), waves(std::numbers::pi / 2)},
                    by_executor([](const Node& x, const Node& cosines, const Node& sines) {
                      const Node real = matmul(x, cosines), imaginary = matmul(x, sines);
                      return real * real + imaginary * imaginary;
                    }),
                    plain::fourier_power,
                    1e-3});
  models.push_back({"covariance matrix",
                    "2000x64",
                    {numbers({2000, 64})},
                    by_executor([](const Node& x) {
                      const Node centred = x - mean(x, 0);
                      return matmul(transpose(centred), centred) / (x.dims()[0] - 1);
                    }),
                    plain::covariance,
                    1e-3});
  models.push_back({"power iteration, 10 steps",
                    "2000x64",
                    {numbers({2000, 64}, -1, 1), numbers({64})},
                    by_executor([](const Node& x, Node v) {
                      for (int step = 0; step < 10; ++step) {
                        v = matmul(transpose(x), matmul(x, v));
                        v = v / sqrt(sum(v * v));
                      }
                      return v;
                    }),
                    plain::power_iteration,
                    1e-3});
  add_written_rows(rows, "written-products", std::move(models));
}

}  // namespace heddle::bench
