// See random_graph.hpp.
#include "support/random_graph.hpp"

#include <algorithm>
#include <array>

#include "heddle/status.hpp"
#include "jit/graph/nodes.hpp"
#include "support/random_graph_generator.hpp"

namespace heddle::jit::testing {

std::vector<Node> GraphGenerator::make(std::span<const std::optional<Node>> given) {
  const auto parameters = static_cast<std::size_t>(below(3) + 1);
  for (std::size_t k = 0; k < parameters; ++k) {
    const ArrayType type{dtype(), dims()};
    const bool is_given = k < given.size() && given[k];
    nodes_.push_back(is_given ? *given[k] : graph_.parameter("p" + std::to_string(k), type));
  }
  for (int k = 0; k < size_; ++k) nodes_.push_back(bounded(operation()));
  std::vector<Node> results{nodes_.back()};
  for (std::int64_t k = below(3); k > 0; --k) results.push_back(any());
  if (one_of(4)) any().log("seen");
  return results;
}

DType GraphGenerator::dtype() {
  // Floats are more frequent: most operations take floats.
  return one_of(2) ? DType::f32 : static_cast<DType>(below(dtype_count));
}

Dims GraphGenerator::dims() {
  Dims dims;
  if (one_of(5)) {  // rows and axes shorter and longer than vectors, and enough of them for these
    if (one_of(4)) return {130 + below(300), 2 + below(3)};  // points
    if (one_of(4)) dims.push_back(1 + below(3));
    dims.push_back(16 + below(40));
    if (one_of(8)) dims.push_back(1);
    dims.push_back(one_of(3) ? 16 + below(50) : 2 + below(15));
    return dims;
  }
  for (std::int64_t rank = below(4); rank > 0; --rank)
    dims.push_back(one_of(12)   ? 0
                   : one_of(3)  ? 1
                   : one_of(10) ? 17 + below(54)  // large enough for schedules
                                : 2 + below(5));
  return dims;
}

Node GraphGenerator::alike(const Node& node) {
  std::vector<Node> found;
  for (const Node& other : nodes_) {
    if (other.dims() == node.dims() || other.rank() == 0) found.push_back(other);
  }
  return found[static_cast<std::size_t>(below(std::ssize(found)))];
}

Node GraphGenerator::with_axis() {
  const Node& node = any();
  return node.rank() > 0 ? node : expand_dims(node, {0});
}

Node GraphGenerator::indices(const Dims& dims) {
  constexpr std::array types{DType::i32, DType::i64, DType::u8, DType::u64};
  Node node = with_axis();
  if (*node.type().num_elements() == 0 || one_of(3)) {
    node = graph_.iota({DType::i32, dims}, dims.empty() ? -1 : 0) * (below(3) - 1) + below(4);
    if (one_of(4)) node = one_of(2) ? node / (1 + below(3)) : node % (1 + below(3));
  } else {
    const std::int64_t count = ArrayType{DType::bool_, dims}.num_elements().value();
    const std::int64_t all = *node.type().num_elements();
    const Node flat = reshape(node, {-1});
    std::vector<Node> parts(static_cast<std::size_t>(count / all + 1), flat);
    node =
        reshape(slice(concatenate(parts), 0, {0, count, 1}), std::vector(dims.begin(), dims.end()));
  }
  return cast(node, types[static_cast<std::size_t>(below(4))]);
}

Node GraphGenerator::key() {
  if (one_of(2)) return graph_.constant(below(1000), DType::u64);
  return fold_in(graph_.constant(below(1000), DType::u64), reshape(indices({1}), {}));
}

Node GraphGenerator::bounded(const Node& node) {
  if (*node.type().num_elements() <= 400 && node.rank() <= 5) return node;
  std::vector<Range> ranges;
  for (const std::int64_t extent : node.dims())
    ranges.push_back({0, std::min<std::int64_t>(extent, 2)});
  return node.rank() > 5 ? reshape(slice(node, ranges), {-1}) : slice(node, ranges);
}

Node GraphGenerator::operation() {
  // Retries where the random operands do not fit the operation.
  for (int tries = 0; tries < 20; ++tries) {
    try {
      switch (below(8)) {
        case 0:
        case 1:
          return layout();
        case 2:
          return sums();
        case 3:
          return places();
        default:
          return elementwise();
      }
    } catch (const Error& error) {
      if (error.code() != ErrorCode::invalid_argument) throw;
    }
  }
  return Operand(any()) + any();
}

Graph random_graph(std::uint64_t seed, int size) {
  const Graph graph("random");
  return graph.finish(GraphGenerator(seed, size, graph).make({}));
}

std::vector<Node> random_nodes(std::uint64_t seed, int size, const Graph& graph,
                               std::span<const std::optional<Node>> parameters) {
  return GraphGenerator(seed, size, graph).make(parameters);
}

}  // namespace heddle::jit::testing
