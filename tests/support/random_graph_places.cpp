// Operations at computed places, sorts, and random numbers.
#include <array>

#include "jit/graph/nodes.hpp"
#include "support/random_graph_generator.hpp"

namespace heddle::jit::testing {

Node GraphGenerator::places() {
  constexpr std::array<Make, 6> makes{
      &GraphGenerator::place_of_largest,   &GraphGenerator::taken,   &GraphGenerator::scattered,
      &GraphGenerator::windowed_at_random, &GraphGenerator::ordered, &GraphGenerator::drawn};
  return (this->*makes[static_cast<std::size_t>(below(makes.size()))])();
}

Node GraphGenerator::place_of_largest() {
  switch (below(3)) {
    case 0:
      return argmax(with_axis());
    case 1:
      return argmin(with_axis(), 0, {true});
    default:
      return one_hot(indices({1 + below(4)}), 1 + below(5), dtype());
  }
}

Node GraphGenerator::taken() {
  const Node node = with_axis();
  const std::int64_t along = axis(node);
  if (node.rank() > 1 && one_of(3)) {
    const Dims where{1 + below(4)};
    return gather(node, {indices(where), indices(where)});
  }
  if (one_of(2)) return take(node, indices({1 + below(4), 1 + below(3)}), along);
  Dims dims = node.dims();
  dims[axis_index(along)] = 1 + below(4);
  return take_along_axis(node, indices(dims), along);
}

Node GraphGenerator::windowed_at_random() {
  const Node node = with_axis();
  Dims sizes = node.dims();
  std::vector<Operand> starts;
  for (std::int64_t& size : sizes) {
    size = below(size + 1);
    starts.emplace_back(one_of(2) ? Operand(below(5) - 1) : Operand(reshape(indices({1}), {})));
  }
  const Node window = dynamic_slice(node, starts, sizes);
  switch (below(3)) {
    case 0:
      return window;
    case 1:  // a slice, the window's only reader
      return slice(window, axis(node), {below(3), 1 + below(5), 1 + below(2)});
    default:
      return dynamic_update_slice(node, window + 1, starts);
  }
}

Node GraphGenerator::scattered() {
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

Node GraphGenerator::ordered() {
  const Node node = with_axis();
  const std::int64_t along = axis(node);
  const Sort options{one_of(2)};
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
    case 3: {  // rows long enough for sorting by digits, or many rows
      const bool long_rows = one_of(2);
      const Dims dims =
          long_rows ? Dims{1 + below(2), 129 + below(60)} : Dims{8 + below(5), 2 + below(9)};
      const Node key = cast(indices(dims), one_of(4) ? DType::i64 : DType::i16);
      if (one_of(2)) return argsort(key, -1, options);
      if (!long_rows && one_of(2)) return sort(key, -1, options);
      return sort({cast(indices(dims), DType::u8), key}, -1, 2, options)[axis_index(below(2))];
    }
    case 4: {
      const TopK top = top_k(node, below(node.dims()[axis_index(along)] + 1), along);
      return one_of(2) ? top.values : top.indices;
    }
    default: {
      const Node flat = reshape(node, {-1});
      return searchsorted(sort(flat), flat, one_of(2) ? Side::left : Side::right);
    }
  }
}

Node GraphGenerator::drawn() {
  const Node k = key();
  switch (below(8)) {
    case 0:
      return random_bits(k, dims());
    case 1:
      return random_uniform(k, dims());
    case 2:
      return random_normal(k, dims());
    case 3:
      return bernoulli(k, 0.25, dims());
    case 4:
      return categorical(k, clamp(cast(with_axis(), DType::f32), -3, 3));
    case 5:
      return permutation(k, below(9));
    case 6:
      return dropout(any(), k, 0.25);
    default:
      return split_key(k, 1 + below(4));
  }
}

}  // namespace heddle::jit::testing
