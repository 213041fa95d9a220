// Operations that move elements.
#include <algorithm>
#include <array>

#include "jit/graph/nodes.hpp"
#include "support/random_graph_generator.hpp"

namespace heddle::jit::testing {

Node GraphGenerator::layout() {
  constexpr std::array<Make, 10> makes{&GraphGenerator::transposed,  &GraphGenerator::reshaped,
                                       &GraphGenerator::sliced,      &GraphGenerator::reversed,
                                       &GraphGenerator::padded,      &GraphGenerator::concatenated,
                                       &GraphGenerator::expanded,    &GraphGenerator::triangle,
                                       &GraphGenerator::broadcasted, &GraphGenerator::counted};
  return (this->*makes[static_cast<std::size_t>(below(makes.size()))])();
}

Node GraphGenerator::transposed() {
  const Node node = any();
  Axes order;
  for (std::int64_t k = 0; k < node.rank(); ++k) order.push_back(k);
  std::shuffle(order.begin(), order.end(), random_);
  return transpose(node, order);
}

Node GraphGenerator::reshaped() {
  const Node node = any();
  std::int64_t left = *node.type().num_elements();
  if (left == 0) return reshape(node, {0, below(4)});
  std::vector<std::int64_t> dims;
  for (const std::int64_t factor : {2, 3, 2, 5}) {
    if (left % factor != 0 || one_of(2)) continue;
    dims.push_back(factor);
    left /= factor;
  }
  dims.push_back(left);
  std::shuffle(dims.begin(), dims.end(), random_);
  return reshape(node, dims);
}

Node GraphGenerator::sliced() {
  const Node node = with_axis();
  const std::int64_t along = axis(node);
  const std::int64_t extent = node.dims()[axis_index(along)];
  if (extent > 0 && one_of(4)) return split(node, extent % 2 == 0 ? 2 : extent, along).back();
  constexpr std::array<std::int64_t, 4> steps{1, 2, -1, -2};
  return slice(node, along, {Range::open, Range::open, steps[static_cast<std::size_t>(below(4))]});
}

Node GraphGenerator::reversed() { return reverse(with_axis(), {-1}); }

Node GraphGenerator::padded() {
  const Node node = with_axis();
  std::vector<Padding> padding;
  for (std::int64_t k = 0; k < node.rank(); ++k)
    padding.push_back({below(3) - 1, below(3) - 1, one_of(4) ? 1 : 0});
  return pad(node, below(2), padding);
}

Node GraphGenerator::concatenated() {
  const Node node = with_axis();
  const Node other = alike(node);
  const Node second = other.rank() == 0 ? node : other;
  if (one_of(4)) return stack({node, second}, axis(node));
  return concatenate({node, second, node}, axis(node));
}

Node GraphGenerator::expanded() {
  const Node& node = any();
  return one_of(4) ? squeeze(node) : expand_dims(node, {-1});
}

Node GraphGenerator::broadcasted() {
  const Node node = any();
  Dims dims = node.dims();
  if (!dims.empty() && one_of(3)) {
    dims.push_back(1 + below(3));
    Axes axes;
    for (std::int64_t k = 0; k < node.rank(); ++k) axes.push_back(k);
    return broadcast_in_dim(node, dims, axes);
  }
  dims.insert(dims.begin(), 1 + below(3));
  return broadcast_to(node, dims);
}

Node GraphGenerator::triangle() {
  const std::int64_t diagonal = below(5) - 2;
  return one_of(2) ? tril(any(), diagonal) : triu(any(), diagonal);
}

Node GraphGenerator::counted() {
  return graph_.iota({dtype(), {1 + below(6), 1 + below(4)}}, below(2));
}

}  // namespace heddle::jit::testing
