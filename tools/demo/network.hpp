// The demo's network as heddle programs: a perceptron with one hidden layer (ReLU), softmax
// cross-entropy, its gradient written out by hand, and the SGD step. Values; any thread.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "heddle/program.hpp"

namespace heddle::demo {

struct NetworkShape {
  DType dtype = f32;  ///< f32 or f64
  std::int64_t inputs = 64, hidden = 64, classes = 10;
};

/// A learned tensor and the gradient of the loss with respect to it, summed over images.
struct Parameter {
  Tensor value;
  Tensor gradient;
};

/// Images and labels in host memory that devices read in place. Rows past the last image have
/// weight 0 and count for nothing, so every shard has the same number of rows.
struct Examples {
  Tensor pixels;  ///< [rows, inputs]
  Tensor labels;  ///< [rows, classes], one-hot
  Tensor weight;  ///< [rows], 1 for an image, 0 for padding
  [[nodiscard]] std::int64_t rows() const { return pixels.dims()[0]; }
};

/// `rows` >= labels.size(); `pixels` holds shape.inputs values per label.
[[nodiscard]] Examples make_examples(const NetworkShape& shape, std::span<const float> pixels,
                                     std::span<const std::uint8_t> labels, std::int64_t rows);

/// Positions in a tensor of sums over images.
enum Metric : int { loss_sum = 0, correct = 1, images = 2 };
inline constexpr std::int64_t metric_count = 3;

class Network {
 public:
  explicit Network(const NetworkShape& shape);

  /// Gradients and metrics of `shard_rows` examples from row shard * shard_rows on. They replace
  /// earlier values.
  [[nodiscard]] Program gradient(const Examples& examples, const StaticIndex& shard,
                                 std::int64_t shard_rows) const;
  /// value -= rates[epoch] * gradient / images, and adds the metrics to the epoch's totals.
  [[nodiscard]] Program step(const Tensor& rates, const StaticIndex& epoch) const;
  /// Sets the epoch's totals to 0.
  [[nodiscard]] Program begin_epoch() const;
  /// Metrics over all examples, into test_metrics().
  [[nodiscard]] Program evaluate(const Examples& examples) const;

  /// w1, b1, w2, b2.
  [[nodiscard]] const std::array<Parameter, 4>& parameters() const noexcept { return parameters_; }
  /// The results of a shard, summed over devices: the gradients, then the metrics.
  [[nodiscard]] std::vector<Tensor> sums() const;
  [[nodiscard]] const Tensor& metrics() const noexcept { return metrics_; }
  [[nodiscard]] const Tensor& totals() const noexcept { return totals_; }
  [[nodiscard]] const Tensor& test_metrics() const noexcept { return test_metrics_; }
  [[nodiscard]] const NetworkShape& shape() const noexcept { return shape_; }

  /// Starting values, one array per parameter: weights uniform in +-sqrt(6 / (fan in + fan out))
  /// (Glorot and Bengio, AISTATS 2010), biases 0. Equal seeds give equal values on every machine.
  [[nodiscard]] std::vector<HostArray> initial_values(std::uint64_t seed) const;

 private:
  struct Forward;
  Forward forward(Program& program, const Examples& examples, const Subscript& first_row,
                  std::int64_t rows) const;
  void measure(Program& program, const Examples& examples, const Forward& pass,
               const Tensor& into) const;

  NetworkShape shape_;
  std::array<Parameter, 4> parameters_;
  Tensor metrics_, totals_, test_metrics_;
};

}  // namespace heddle::demo
