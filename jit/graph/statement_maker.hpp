// The statements that make one kept node of a graph. Pure; one thread.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <utility>
#include <variant>
#include <vector>

#include "heddle/program.hpp"
#include "jit/graph/places.hpp"
#include "jit/graph/state.hpp"

namespace heddle::jit {

/// By node; of those made so far. A reshape that is read in between may have one axis alone, its
/// elements in row-major order.
using NodeTensors = std::vector<std::optional<Tensor>>;

/// One statement over the elements of an array: what nodes are at its places.
class StatementMaker {
 public:
  /// `dims`: of what it runs over, as far as digits are not cut.
  StatementMaker(const GraphState& graph, const NodeTensors& tensors, const Dims& dims)
      : StatementMaker(graph, tensors, Digits(dims)) {}
  StatementMaker(const GraphState& graph, const NodeTensors& tensors, Digits digits);

  /// Where the statement is, in the array that it runs over.
  [[nodiscard]] const NodePlaces& places() const noexcept { return places_; }
  /// As subscripts.
  [[nodiscard]] std::vector<Subscript> target() const { return subscripts(places_); }
  [[nodiscard]] std::vector<Subscript> subscripts(const NodePlaces& places) const;
  /// The value of a node there. Throws Cut where a digit has to be cut before, and Unreadable where
  /// the node cannot be read there at all.
  [[nodiscard]] Expr read(NodeId id, const NodePlaces& places);

  /// The element of a node of shape `from` that lies at `places` of the same elements in shape
  /// `to`. Throws NotAffine where there is no such place.
  [[nodiscard]] Expr read_reshaped(NodeId id, const Dims& from, const NodePlaces& places,
                                   const Dims& to);

  /// The elements that a scatter's updates go to, where the statement runs over these.
  [[nodiscard]] std::vector<Subscript> scattered(const GraphNode& node);

  struct Unreadable {
    NodeId id;  ///< that has to be kept
  };

 private:
  Expr value(NodeId id, const NodePlaces& places);
  Expr gathered(const GraphNode& node, const NodePlaces& places);
  /// Of places in the result of a gather, or in updates: those in the arrays of indices, which come
  /// first, and those in the window, as subscripts.
  [[nodiscard]] NodePlaces places_of_indices(std::span<const NodeId> indices,
                                             const NodePlaces& places) const;
  [[nodiscard]] std::vector<Subscript> in_window(std::span<const NodeId> indices,
                                                 const NodePlaces& places) const;

  const GraphState& graph_;
  const NodeTensors& tensors_;
  Digits digits_;
  NodePlaces places_;
  std::vector<Index> indices_;
  std::map<std::pair<NodeId, NodePlaces>, Expr> known_;
};

/// The statements that make `id` in `tensor`, or a node that has to be kept before.
[[nodiscard]] std::variant<std::vector<Statement>, NodeId> statements_of(const GraphState& graph,
                                                                         const NodeTensors& tensors,
                                                                         NodeId id,
                                                                         const Tensor& tensor);

}  // namespace heddle::jit
