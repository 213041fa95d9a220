// See random_graph.hpp.
#include "support/random_graph.hpp"

#include <algorithm>
#include <array>
#include <random>
#include <vector>

#include "heddle/graph_ops.hpp"
#include "heddle/status.hpp"
#include "jit/graph/nodes.hpp"

namespace heddle::jit::testing {
namespace {

class GraphGenerator {
 public:
  GraphGenerator(std::uint64_t seed, int size) : random_(seed), graph_("random"), size_(size) {}

  Graph make() {
    const std::int64_t parameters = below(3) + 1;
    for (std::int64_t k = 0; k < parameters; ++k)
      nodes_.push_back(graph_.parameter("p" + std::to_string(k), {dtype(), dims()}));
    for (int k = 0; k < size_; ++k) nodes_.push_back(bounded(operation()));
    std::vector<Node> results{nodes_.back()};
    for (std::int64_t k = below(3); k > 0; --k) results.push_back(any());
    if (below(4) == 0) any().log("seen");
    graph_.finish(results);
    return graph_;
  }

 private:
  std::int64_t below(std::int64_t bound) {
    return static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(bound));
  }
  DType dtype() {
    // Floats more often: most operations are for them.
    return below(2) == 0 ? DType::f32 : static_cast<DType>(below(dtype_count));
  }
  Dims dims() {
    Dims dims;
    for (std::int64_t rank = below(4); rank > 0; --rank)
      dims.push_back(below(12) == 0 ? 0 : below(3) == 0 ? 1 : 2 + below(5));
    return dims;
  }
  const Node& any() { return nodes_[static_cast<std::size_t>(below(std::ssize(nodes_)))]; }
  /// A node with an axis at least, if need be an expanded one.
  Node with_axis() {
    const Node& node = any();
    return node.rank() > 0 ? node : expand_dims(node, {0});
  }
  std::int64_t axis(const Node& node) { return below(node.rank()); }

  /// Graphs of small arrays: others are cut.
  Node bounded(const Node& node) {
    if (*node.type().num_elements() <= 400 && node.rank() <= 5) return node;
    std::vector<Range> ranges;
    for (const std::int64_t extent : node.dims())
      ranges.push_back({0, std::min<std::int64_t>(extent, 2)});
    return node.rank() > 5 ? reshape(slice(node, ranges), {-1}) : slice(node, ranges);
  }

  Node operation() {
    // What does not go together by chance is replaced.
    for (int tries = 0; tries < 20; ++tries) {
      try {
        return below(2) == 0 ? elementwise() : structural();
      } catch (const Error& error) {
        if (error.code() != ErrorCode::invalid_argument) throw;
      }
    }
    return Operand(any()) + any();
  }

  Node elementwise() {
    const Node a = any();
    const Node b = below(3) == 0 ? any() : alike(a);
    switch (below(16)) {
      case 0:
        return a + b;
      case 1:
        return a - b;
      case 2:
        return a * b;
      case 3:
        return a / b;
      case 4:
        return max(a, b);
      case 5:
        return min(a, 2);
      case 6:
        return where(a < b, a, b);
      case 7:
        return fma(a, b, 1);
      case 8:
        return relu(a);
      case 9:
        return -a;
      case 10:
        return cast(a, dtype());
      case 11:
        return a == b || a != a;
      case 12:
        return clamp(a, 0, 1);
      case 13:
        return sqrt(abs(a));
      case 14:
        return tanh(a);
      default:
        return exp(-abs(cast(a, DType::f32)));
    }
  }

  /// A node of the same shape, or one that broadcasts to it.
  Node alike(const Node& node) {
    std::vector<Node> found;
    for (const Node& other : nodes_) {
      if (other.dims() == node.dims() || other.rank() == 0) found.push_back(other);
    }
    return found[static_cast<std::size_t>(below(std::ssize(found)))];
  }

  Node structural() {
    switch (below(22)) {
      case 0:
        return sum(any());
      case 1:
        return reduced();
      case 2:
        return transposed();
      case 3:
        return reshaped();
      case 4:
        return sliced();
      case 5:
        return reverse(with_axis(), {-1});
      case 6:
        return padded();
      case 7:
        return concatenated();
      case 8:
        return expand_dims(any(), {-1});
      case 9:
        return broadcasted();
      case 10:
        return matmul(with_axis(), with_axis());
      case 11:
        return product_of_rows();
      case 12:
        return convolved();
      case 13:
        return windowed();
      case 14:
        return cumulated();
      case 15:
        return softmax(cast(with_axis(), DType::f32));
      case 16:
        return argmax(with_axis());
      case 17:
        return taken();
      case 18:
        return windowed_at_random();
      case 19:
        return scattered();
      case 20:
        return ordered();
      default:
        return graph_.iota({dtype(), {1 + below(6), 1 + below(4)}}, below(2));
    }
  }

  Node reduced() {
    const Node node = with_axis();
    const Axes axes{axis(node)};
    const Reduce options{below(2) == 0};
    switch (below(5)) {
      case 0:
        return sum(node, axes, options);
      case 1:
        return product(node, axes, options);
      case 2:
        return maximum(node, axes, options);
      case 3:
        return all(node, axes, options);
      default:
        return minimum(node, axes, options);
    }
  }
  Node transposed() {
    const Node node = any();
    Axes order;
    for (std::int64_t k = 0; k < node.rank(); ++k) order.push_back(k);
    std::shuffle(order.begin(), order.end(), random_);
    return transpose(node, order);
  }
  Node reshaped() {
    const Node node = any();
    std::int64_t left = *node.type().num_elements();
    if (left == 0) return reshape(node, {0, below(4)});
    std::vector<std::int64_t> dims;
    for (const std::int64_t factor : {2, 3, 2, 5}) {
      if (left % factor != 0 || below(2) == 0) continue;
      dims.push_back(factor);
      left /= factor;
    }
    dims.push_back(left);
    std::shuffle(dims.begin(), dims.end(), random_);
    return reshape(node, dims);
  }
  Node sliced() {
    const Node node = with_axis();
    const std::int64_t along = axis(node);
    constexpr std::array<std::int64_t, 4> steps{1, 2, -1, -2};
    return slice(node, along,
                 {Range::open, Range::open, steps[static_cast<std::size_t>(below(4))]});
  }
  Node padded() {
    const Node node = with_axis();
    std::vector<Padding> padding;
    for (std::int64_t k = 0; k < node.rank(); ++k)
      padding.push_back({below(3) - 1, below(3) - 1, below(4) == 0 ? 1 : 0});
    return pad(node, below(2), padding);
  }
  Node concatenated() {
    const Node node = with_axis();
    const Node other = alike(node);
    return concatenate({node, other.rank() == 0 ? node : other, node}, axis(node));
  }
  Node broadcasted() {
    const Node node = any();
    Dims dims = node.dims();
    dims.insert(dims.begin(), 1 + below(3));
    return broadcast_to(node, dims);
  }
  Node product_of_rows() {
    const Node node = with_axis();
    const Node other = alike(node).rank() == 0 ? node : alike(node);
    const std::int64_t last = node.rank() - 1;
    DotAxes axes;
    axes.contract_a = axes.contract_b = {last};
    if (last > 0 && below(2) == 0) axes.batch_a = axes.batch_b = {0};
    return dot_general(node, other.dims() == node.dims() ? other : node, axes);
  }
  Node convolved() {
    const std::int64_t groups = 1 + below(2);
    const Node images = graph_.iota({DType::f32, {2, 2 * groups, 7}}, -1);
    const Node filters = graph_.iota({DType::f32, {2 * groups, 2, 3}}, below(3));
    ConvOptions options;
    options.groups = groups;
    options.step = {1 + below(2)};
    options.dilation = {1 + below(2)};
    options.padding = {{below(2), below(2), below(2)}};
    return below(2) == 0 ? conv(images * 0.5, filters, options)
                         : conv_transposed(images, filters - 1, options);
  }
  Node windowed() {
    const Node node = with_axis();
    const Window window{.size = {1 + below(3)}, .step = {1 + below(2)}, .dilation = {}};
    return below(2) == 0 ? window_sum(node, window) : window_maximum(node, window);
  }
  Node cumulated() {
    const Node node = with_axis();
    const std::int64_t along = axis(node);
    const Cumulate options{below(2) == 0};
    return below(2) == 0 ? cumsum(node, along, options) : cummax(node, along, options);
  }

  /// Integers about as large as places are, negative ones and such outside among them.
  Node indices(const Dims& dims) {
    constexpr std::array<DType, 4> types{DType::i32, DType::i64, DType::u8, DType::u64};
    Node node = with_axis();
    if (*node.type().num_elements() == 0 || below(3) == 0) {
      node = graph_.iota({DType::i32, dims}, dims.empty() ? -1 : 0) * (below(3) - 1) + below(4);
    } else {
      const std::int64_t count = ArrayType{DType::bool_, dims}.num_elements().value();
      const std::int64_t all = *node.type().num_elements();
      const Node flat = reshape(node, {-1});
      std::vector<Node> parts(static_cast<std::size_t>(count / all + 1), flat);
      node = reshape(slice(concatenate(parts), 0, {0, count, 1}),
                     std::vector(dims.begin(), dims.end()));
    }
    return cast(node, types[static_cast<std::size_t>(below(4))]);
  }
  Node taken() {
    const Node node = with_axis();
    const std::int64_t along = axis(node);
    if (below(2) == 0) return take(node, indices({1 + below(4), 1 + below(3)}), along);
    Dims dims = node.dims();
    dims[axis_index(along)] = 1 + below(4);
    return take_along_axis(node, indices(dims), along);
  }
  Node windowed_at_random() {
    const Node node = with_axis();
    Dims sizes = node.dims();
    std::vector<Operand> starts;
    for (std::int64_t& size : sizes) {
      size = below(size + 1);
      starts.emplace_back(below(2) == 0 ? Operand(below(5) - 1)
                                        : Operand(reshape(indices({1}), {})));
    }
    const Node window = dynamic_slice(node, starts, sizes);
    switch (below(3)) {
      case 0:
        return window;
      case 1:  // a part of it, which nobody else reads
        return slice(window, axis(node), {below(3), 1 + below(5), 1 + below(2)});
      default:
        return dynamic_update_slice(node, window + 1, starts);
    }
  }
  Node scattered() {
    const Node node = with_axis();
    constexpr std::array hows{Scatter::set, Scatter::add, Scatter::multiply, Scatter::maximum,
                              Scatter::minimum};
    const std::int64_t axes = 1 + below(node.rank());
    const Dims places{1 + below(5)};
    std::vector<Node> where;
    for (std::int64_t k = 0; k < axes; ++k) where.push_back(indices(places));
    Dims dims = places;
    for (std::int64_t k = axes; k < node.rank(); ++k) dims.push_back(node.dims()[axis_index(k)]);
    const Node update =
        cast(graph_.iota({DType::f32, dims}, below(std::ssize(dims))) - 1, node.dtype());
    return scatter(node, where, update, hows[static_cast<std::size_t>(below(5))]);
  }

  Node ordered() {
    const Node node = with_axis();
    const std::int64_t along = axis(node);
    const Sort options{below(2) == 0};
    switch (below(6)) {
      case 0:
        return sort(node, along, options);
      case 1:
        return argsort(node, along, options);
      case 2: {
        const Node other = alike(node);
        const Node second = other.rank() == 0 ? node == node : other;
        return sort({second, node}, along, 1 + below(2), options)[1];
      }
      case 3: {  // rows that are long enough for digits
        const Dims dims{1 + below(2), 129 + below(60)};
        const Node key = cast(indices(dims), below(4) == 0 ? DType::i64 : DType::i16);
        if (below(2) == 0) return argsort(key, -1, options);
        return sort({cast(indices(dims), DType::u8), key}, -1, 2, options)[axis_index(below(2))];
      }
      case 4: {
        const TopK top = top_k(node, below(node.dims()[axis_index(along)] + 1), along);
        return below(2) == 0 ? top.values : top.indices;
      }
      default: {
        const Node flat = reshape(node, {-1});
        return searchsorted(sort(flat), flat, below(2) == 0 ? Side::left : Side::right);
      }
    }
  }

  std::mt19937_64 random_;
  Graph graph_;
  int size_;
  std::vector<Node> nodes_;
};

}  // namespace

Graph random_graph(std::uint64_t seed, int size) { return GraphGenerator(seed, size).make(); }

}  // namespace heddle::jit::testing
