// Forward pass, hand-written backward pass and update in index notation.
//
//   a = relu(x w1 + b1)     p = softmax(a w2 + b2)     loss = -sum y log p
//   dz = p - y              dw2 = a^T dz               db2 = sum dz
//   da = dz w2^T where a>0  dw1 = x^T da               db1 = sum da
#include "tools/demo/network.hpp"

#include <cmath>
#include <string>

namespace heddle::demo {
namespace {

Parameter make_parameter(const std::string& label, DType dtype, const Dims& dims) {
  Parameter parameter{Tensor(label, dtype, dims), Tensor("d_" + label, dtype, dims)};
  parameter.value.set_mode(MemoryMode::on_device);
  parameter.gradient.set_mode(MemoryMode::on_device);
  return parameter;
}

Tensor make_metrics(const std::string& label, DType dtype) {
  return Tensor(label, dtype, {metric_count}).set_mode(MemoryMode::on_device);
}

/// One fresh index per axis: for statements that treat a tensor element by element.
std::vector<Subscript> every_element(const Tensor& tensor) {
  std::vector<Subscript> subscripts;
  for (std::size_t axis = 0; axis < tensor.dims().size(); ++axis) subscripts.emplace_back(Index());
  return subscripts;
}

}  // namespace

Examples make_examples(const NetworkShape& shape, std::span<const float> pixels,
                       std::span<const std::uint8_t> labels, std::int64_t rows) {
  const HostArray x({shape.dtype, {rows, shape.inputs}});
  const HostArray y({shape.dtype, {rows, shape.classes}});
  const HostArray weight({shape.dtype, {rows}});
  for (std::size_t k = 0; k < pixels.size(); ++k) x.set(static_cast<std::int64_t>(k), pixels[k]);
  for (std::size_t k = 0; k < labels.size(); ++k) {
    const auto row = static_cast<std::int64_t>(k);
    y.set(row * shape.classes + labels[k], 1);
    weight.set(row, 1);
  }
  return {Tensor("pixels", x, MemoryMode::hosted_constant),
          Tensor("labels", y, MemoryMode::hosted_constant),
          Tensor("weight", weight, MemoryMode::hosted_constant)};
}

Network::Network(const NetworkShape& shape)
    : shape_(shape),
      parameters_{make_parameter("w1", shape.dtype, {shape.inputs, shape.hidden}),
                  make_parameter("b1", shape.dtype, {shape.hidden}),
                  make_parameter("w2", shape.dtype, {shape.hidden, shape.classes}),
                  make_parameter("b2", shape.dtype, {shape.classes})},
      metrics_(make_metrics("metrics", shape.dtype)),
      totals_(make_metrics("totals", shape.dtype)),
      test_metrics_(make_metrics("test_metrics", shape.dtype)) {}

/// The activations of one forward pass, and the rows of the examples that the pass read.
struct Network::Forward {
  Subscript row;   ///< the examples', by index n
  Index n;         ///< the row of the tensors below
  Tensor active;   ///< [rows, hidden], after ReLU
  Tensor logits;   ///< [rows, classes]
  Tensor highest;  ///< [rows], the greatest logit
  Tensor exps;     ///< [rows, classes], exp(logit - highest)
  Tensor exp_sum;  ///< [rows]
};

Network::Forward Network::forward(Program& program, const Examples& examples,
                                  const Subscript& first_row, std::int64_t rows) const {
  const DType t = shape_.dtype;
  const auto& [w1, b1, w2, b2] = parameters_;
  const Index n("n", rows), i("i"), j("j"), c("c");
  const Tensor hidden("hidden", t, {rows, shape_.hidden});
  Forward to{first_row + n,
             n,
             Tensor("active", t, {rows, shape_.hidden}),
             Tensor("logits", t, {rows, shape_.classes}),
             Tensor("highest", t, {rows}),
             Tensor("exps", t, {rows, shape_.classes}),
             Tensor("exp_sum", t, {rows})};
  program.comment("forward");
  program << (hidden(n, j) = sum(examples.pixels(to.row, i) * w1.value(i, j)));
  program << (to.active(n, j) = relu(hidden(n, j) + b1.value(j)));
  program << (to.logits(n, c) = sum(to.active(n, j) * w2.value(j, c)));
  program << (to.logits(n, c) += b2.value(c));
  program << (to.highest(n) = maximum(to.logits(n, c)));
  program << (to.exps(n, c) = exp(to.logits(n, c) - to.highest(n)));
  program << (to.exp_sum(n) = sum(to.exps(n, c)));
  return to;
}

/// Sums over the rows of one pass. An image counts as correct when its label has the highest
/// logit; a tie with another class would count as well.
void Network::measure(Program& program, const Examples& examples, const Forward& pass,
                      const Tensor& into) const {
  const Index c("c");
  const auto& [row, n, active, logits, highest, exps, exp_sum] = pass;
  const Expr weight = examples.weight(row);
  program.comment("metrics");
  program << (into(loss_sum) = sum(weight * (log(exp_sum(n)) + highest(n))));
  program << (into(loss_sum) -= examples.labels(row, c) * logits(n, c));
  program << (into(correct) = sum(where(logits(n, c) >= highest(n), examples.labels(row, c), 0)));
  program << (into(images) = sum(weight));
}

Program Network::gradient(const Examples& examples, const StaticIndex& shard,
                          std::int64_t shard_rows) const {
  const DType t = shape_.dtype;
  const auto& [w1, b1, w2, b2] = parameters_;
  Program program("gradient");
  const Forward pass = forward(program, examples, shard_rows * Subscript(shard), shard_rows);
  const auto& [row, n, active, logits, highest, exps, exp_sum] = pass;
  const Index i("i"), j("j"), c("c");
  const Tensor d_logits("d_logits", t, logits.dims());
  const Tensor d_active("d_active", t, active.dims());
  const Tensor d_hidden("d_hidden", t, active.dims());

  program.comment("backward");
  program << (d_logits(n, c) =
                  examples.weight(row) * exps(n, c) / exp_sum(n) - examples.labels(row, c));
  program << (w2.gradient(j, c) = sum(active(n, j) * d_logits(n, c)));
  program << (b2.gradient(c) = sum(d_logits(n, c)));
  program << (d_active(n, j) = sum(d_logits(n, c) * w2.value(j, c)));
  program << (d_hidden(n, j) = relu_gate(active(n, j), d_active(n, j)));
  program << (w1.gradient(i, j) = sum(examples.pixels(row, i) * d_hidden(n, j)));
  program << (b1.gradient(j) = sum(d_hidden(n, j)));
  measure(program, examples, pass, metrics_);
  return program;
}

Program Network::evaluate(const Examples& examples) const {
  Program program("evaluate");
  measure(program, examples, forward(program, examples, 0, examples.rows()), test_metrics_);
  return program;
}

std::vector<Tensor> Network::sums() const {
  std::vector<Tensor> tensors;
  for (const Parameter& parameter : parameters_) tensors.push_back(parameter.gradient);
  tensors.push_back(metrics_);
  return tensors;
}

Program Network::step(const Tensor& rates, const StaticIndex& epoch) const {
  Program program("step");
  for (const auto& [value, gradient] : parameters_) {
    const auto at = every_element(value);
    program << (value.at(at) -= rates(epoch) * gradient.at(at) / metrics_(images));
  }
  const Index m;
  program << (totals_(m) += metrics_(m));
  return program;
}

Program Network::begin_epoch() const {
  const Index m;
  return Program("begin_epoch") << (totals_(m) = 0);
}

std::vector<HostArray> Network::initial_values(std::uint64_t seed) const {
  std::vector<HostArray> values;
  for (const Parameter& parameter : parameters_) {
    const ArrayType& type = parameter.value.type();
    if (type.dims.size() == 1) {
      values.emplace_back(type);
      continue;
    }
    const double bound = std::sqrt(6.0 / static_cast<double>(type.dims[0] + type.dims[1]));
    const HostArray array = HostArray::uniform(type, seed++);
    for (std::int64_t k = 0; k < array.num_elements(); ++k) {
      array.set(k, (2 * array.at(k) - 1) * bound);
    }
    values.push_back(array);
  }
  return values;
}

}  // namespace heddle::demo
