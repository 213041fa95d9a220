// Builds random_graph(): operations on existing nodes, one file per family.
#pragma once

#include <optional>
#include <random>
#include <span>
#include <vector>

#include "heddle/graph.hpp"
#include "heddle/graph_ops.hpp"

namespace heddle::jit::testing {

class GraphGenerator {
 public:
  GraphGenerator(std::uint64_t seed, int size, const Graph& graph)
      : random_(seed), graph_(graph), size_(size) {}

  /// The results.
  std::vector<Node> make(std::span<const std::optional<Node>> parameters);

 private:
  using Make = Node (GraphGenerator::*)();

  std::int64_t below(std::int64_t bound) {
    return static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(bound));
  }
  bool one_of(std::int64_t count) { return below(count) == 0; }
  DType dtype();
  Dims dims();
  const Node& any() { return nodes_[static_cast<std::size_t>(below(std::ssize(nodes_)))]; }
  /// A node of the same shape, or a node that broadcasts to the shape.
  Node alike(const Node& node);
  /// A node with at least one axis, expanded where necessary.
  Node with_axis();
  std::int64_t axis(const Node& node) { return below(node.rank()); }
  /// Integers in the range of places, and some negative and out-of-range ones.
  Node indices(const Dims& dims);
  /// A scalar of u64: a constant, or computed by the graph.
  Node key();

  /// Slices large arrays: graphs have small arrays.
  static Node bounded(const Node& node);
  Node operation();

  // random_graph_elements.cpp
  Node elementwise();
  Node arithmetic();
  Node compared();
  Node of_one();
  Node retyped();
  Node hashed();

  // random_graph_layout.cpp
  Node layout();
  Node transposed();
  Node reshaped();
  Node sliced();
  Node reversed();
  Node padded();
  Node concatenated();
  Node expanded();
  Node broadcasted();
  Node triangle();
  Node counted();

  // random_graph_sums.cpp
  Node sums();
  Node reduced();
  Node moments();
  Node multiplied();
  Node product_of_rows();
  Node summed_by_letters();
  Node convolved();
  Node windowed();
  Node cumulated();
  Node normalized();
  Node attended();

  // random_graph_places.cpp
  Node places();
  Node place_of_largest();
  Node taken();
  Node windowed_at_random();
  Node scattered();
  Node ordered();
  Node drawn();

  std::mt19937_64 random_;
  Graph graph_;
  int size_;
  std::vector<Node> nodes_;
};

}  // namespace heddle::jit::testing
