// The models of the written rows as loops of a textbook, compiled as plain_kernels.cpp is. Any
// thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace heddle::bench {

/// The arrays of a model: arguments, then results.
class PlainArrays {
 public:
  void add(void* data, std::vector<std::int64_t> dims) {
    arrays_.push_back({data, std::move(dims)});
  }
  template <class T = float>
  [[nodiscard]] T* at(std::size_t k) const {
    return static_cast<T*>(arrays_[k].data);
  }
  [[nodiscard]] std::size_t extent(std::size_t k, std::size_t axis) const {
    return static_cast<std::size_t>(arrays_[k].dims[axis]);
  }
  /// The number of elements.
  [[nodiscard]] std::size_t size(std::size_t k) const {
    std::size_t product = 1;
    for (const std::int64_t each : arrays_[k].dims) product *= static_cast<std::size_t>(each);
    return product;
  }

 private:
  struct One {
    void* data;
    std::vector<std::int64_t> dims;
  };
  std::vector<One> arrays_;
};

namespace plain {

/// c = a b of m x k and k x n numbers.
void multiply(std::size_t m, std::size_t n, std::size_t k, const float* a, const float* b,
              float* c);
/// Each row less its largest number, as exponentials, as shares of their sum.
void softmax_rows(std::size_t rows, std::size_t columns, float* x);

// plain_products.cpp
void one_product(const PlainArrays& x);
void sum_of_two_products(const PlainArrays& x);
void larger_of_two_products(const PlainArrays& x);
void mean_of_product(const PlainArrays& x);
void row_sums_of_product(const PlainArrays& x);
void column_sums_of_product(const PlainArrays& x);
void windows_of_product(const PlainArrays& x);
void gated_product(const PlainArrays& x);
void squared_error_of_product(const PlainArrays& x);
void hinge_loss(const PlainArrays& x);
void fourier_power(const PlainArrays& x);
void covariance(const PlainArrays& x);
void power_iteration(const PlainArrays& x);

// plain_networks.cpp
void lstm(const PlainArrays& x);
void conv_net(const PlainArrays& x);
void perceptron_step(const PlainArrays& x);
void softmax_regression_step(const PlainArrays& x);
void attention_block(const PlainArrays& x);
void cached_decode(const PlainArrays& x);
void embedding_bag(const PlainArrays& x);
void gelu(const PlainArrays& x);

// plain_physics.cpp
void gravity(const PlainArrays& x);
void lennard_jones(const PlainArrays& x);
void neighbours_clamped(const PlainArrays& x);
void neighbours_padded(const PlainArrays& x);
void heat_step(const PlainArrays& x);
void wave_step(const PlainArrays& x);
void cloth(const PlainArrays& x);
void kalman_step(const PlainArrays& x);

// plain_statistics.cpp
void spread(const PlainArrays& x);
void normal_numbers(const PlainArrays& x);
void pi_by_chance(const PlainArrays& x);
void black_scholes(const PlainArrays& x);
void cumulative_returns(const PlainArrays& x);
void moving_average(const PlainArrays& x);
void linear_regression(const PlainArrays& x);
void place_of_largest(const PlainArrays& x);
void sorted_rows(const PlainArrays& x);
void power_of_three_halves(const PlainArrays& x);
void k_means_step(const PlainArrays& x);
void logsumexp_rows(const PlainArrays& x);

// plain_tables.cpp
void group_sums(const PlainArrays& x);
void five_aggregates(const PlainArrays& x);
void histogram(const PlainArrays& x);
void page_rank_step(const PlainArrays& x);
void search_level(const PlainArrays& x);
void components_round(const PlainArrays& x);
void count_of_trigrams(const PlainArrays& x);
void edit_distance_row(const PlainArrays& x);

// plain_images.cpp
void blur(const PlainArrays& x);
void sobel(const PlainArrays& x);
void resize(const PlainArrays& x);
void mandelbrot(const PlainArrays& x);
void game_of_life(const PlainArrays& x);

}  // namespace plain
}  // namespace heddle::bench
