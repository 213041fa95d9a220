// Reductions, contractions, windows, and layers composed of them.
#include <array>

#include "jit/graph/nodes.hpp"
#include "support/random_graph_generator.hpp"

namespace heddle::jit::testing {

Node GraphGenerator::sums() {
  constexpr std::array<Make, 12> makes{
      &GraphGenerator::reduced,         &GraphGenerator::reduced,
      &GraphGenerator::moments,         &GraphGenerator::multiplied,
      &GraphGenerator::product_of_rows, &GraphGenerator::summed_by_letters,
      &GraphGenerator::convolved,       &GraphGenerator::windowed,
      &GraphGenerator::windowed,        &GraphGenerator::cumulated,
      &GraphGenerator::normalized,      &GraphGenerator::attended};
  return (this->*makes[static_cast<std::size_t>(below(makes.size()))])();
}

Node GraphGenerator::reduced() {
  const Node node = with_axis();
  const Axes axes = one_of(4) ? Axes{} : Axes{axis(node)};
  const Reduce options{one_of(2)};
  switch (below(6)) {
    case 0:
      return sum(node, axes, options);
    case 1:
      return product(node, axes, options);
    case 2:
      return maximum(node, axes, options);
    case 3:
      return all(node, axes, options);
    case 4:
      return heddle::any(node, axes, options);
    default:
      return minimum(node, axes, options);
  }
}

Node GraphGenerator::moments() {
  const Node node = with_axis();
  const Axes axes{axis(node)};
  switch (below(3)) {
    case 0:
      return mean(node, axes);
    case 1:
      return variance(node, axes, {one_of(2)});
    default:
      return logsumexp(node, axes);
  }
}

Node GraphGenerator::multiplied() { return matmul(with_axis(), with_axis()); }

Node GraphGenerator::product_of_rows() {
  const Node node = with_axis();
  const Node other = alike(node);
  const std::int64_t last = node.rank() - 1;
  DotAxes axes;
  axes.contract_a = axes.contract_b = {last};
  if (last > 0 && one_of(2)) axes.batch_a = axes.batch_b = {0};
  return dot_general(node, other.rank() == 0 ? node : other, axes);
}

Node GraphGenerator::summed_by_letters() {
  const Node node = with_axis();
  const Node rows = node.rank() == 2 ? node : reshape(node, {node.dims()[0], -1});
  switch (below(4)) {
    case 0:
      return einsum("ij,kj->ik", {rows, rows});
    case 1:
      return einsum("ij,ik,i->jk", {rows, rows, reshape(slice(rows, 1, {0, 1, 1}), {-1})});
    case 2:
      return einsum("ij->j", {rows});
    default:
      return einsum("ij,ij", {rows, reverse(rows)});
  }
}

Node GraphGenerator::convolved() {
  const std::int64_t groups = 1 + below(2);
  const auto space = static_cast<std::size_t>(one_of(2) ? 1 : 2 + below(2));
  Dims images{1 + below(2), 2 * groups}, filters{2 * groups, 2};
  ConvOptions options;
  options.groups = groups;
  for (std::size_t k = 0; k < space; ++k) {
    images.push_back(space == 1 ? 7 : 4);
    filters.push_back(1 + below(3));
    options.step.push_back(1 + below(2));
    options.dilation.push_back(1 + below(2));
    options.padding.push_back({below(2), below(2), 0});
  }
  const Node x = graph_.iota({DType::f32, images}, -1);
  const Node w = graph_.iota({DType::f32, filters}, below(3));
  if (one_of(2)) return conv_transposed(x, w - 1, options);
  options.padding[0].interior = below(2);
  return conv(x * 0.5, w, options);
}

Node GraphGenerator::windowed() {
  const Node node = with_axis();
  Window window{.size = {1 + below(3)}, .step = {1 + below(2)}, .dilation = {}};
  if (node.rank() > 1 && one_of(3)) {
    window.size.push_back(1 + below(2));
    window.step.clear();
    window.dilation = {1, 1 + below(2)};
  }
  switch (below(3)) {
    case 0:
      return window_sum(node, window);
    case 1:
      return window_minimum(node, window);
    default:
      return window_maximum(node, window);
  }
}

Node GraphGenerator::cumulated() {
  const Node node = with_axis();
  const std::int64_t along = axis(node);
  const Cumulate options{one_of(2)};
  switch (below(3)) {
    case 0:
      return cumsum(node, along, options);
    case 1:
      return cumprod(node, along, options);
    default:
      return cummax(node, along, options);
  }
}

Node GraphGenerator::normalized() {
  const Node node = with_axis();
  switch (below(5)) {
    case 0:
      return softmax(cast(node, DType::f32), axis(node));
    case 1:
      return log_softmax(node, axis(node));
    case 2:
      return layer_norm(node, graph_.constant(2.0F), graph_.constant(0.5F));
    case 3:
      return rms_norm(node, graph_.constant(1.5F));
    default: {
      Dims labels = node.dims();
      labels.resize(labels.size() - 1);
      return cross_entropy(node, indices(labels));
    }
  }
}

Node GraphGenerator::attended() {
  const Node node = with_axis();
  const Node rows = node.rank() >= 2 ? node : expand_dims(node, {0});
  const Node x = clamp(cast(rows, DType::f32), -3, 3);
  AttentionOptions options;
  options.causal = one_of(2);
  options.scale = one_of(2) ? 0.25 : 0;
  return one_of(3) ? attention(x, x * 0.5, x + 1, options, rows < 3) : attention(x, x, x, options);
}

}  // namespace heddle::jit::testing
