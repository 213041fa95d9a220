// StatementMaker: builds the statements that compute one kept node of a graph. Pure; one thread.
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

/// The tensors made so far, by node. The tensor of a reshape that is not a kept node may be flat:
/// one axis, elements in row-major order.
using NodeTensors = std::vector<std::optional<Tensor>>;

/// Builds one statement over the elements of an array: the values of nodes at the statement's
/// places.
class StatementMaker {
 public:
  /// `dims`: the shape of the array, before digits are cut.
  StatementMaker(const GraphState& graph, const NodeTensors& tensors, const Dims& dims)
      : StatementMaker(graph, tensors, Digits(dims)) {}
  StatementMaker(const GraphState& graph, const NodeTensors& tensors, Digits digits);

  /// The statement's place in its array.
  [[nodiscard]] const NodePlaces& places() const noexcept { return places_; }
  /// The statement's place as subscripts.
  [[nodiscard]] std::vector<Subscript> target() const { return subscripts(places_); }
  [[nodiscard]] std::vector<Subscript> subscripts(const NodePlaces& places) const;
  /// The value of a node at `places`. Throws Cut where a digit must be cut first, and Unreadable
  /// where the node must be kept first.
  [[nodiscard]] Expr read(NodeId id, const NodePlaces& places);

  /// The element of a node of shape `from` at `places` of the same elements in shape `to`. Throws
  /// NotAffine where no affine place exists.
  [[nodiscard]] Expr read_reshaped(NodeId id, const Dims& from, const NodePlaces& places,
                                   const Dims& to);

  /// The elements that a scatter's updates go to; the statement runs over the updates.
  [[nodiscard]] std::vector<Subscript> scattered(const GraphNode& node);

  struct Unreadable {
    NodeId id;  ///< the node to keep
  };

 private:
  Expr value(NodeId id, const NodePlaces& places);
  Expr gathered(const GraphNode& node, const NodePlaces& places);
  /// places_of_indices() and in_window() split places in the result of a gather, or in the updates
  /// of a scatter: first come the places in the index arrays, then the places in the window, as
  /// subscripts.
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

/// The statements that compute `id` in `tensor`, or a node that must be kept first.
[[nodiscard]] std::variant<std::vector<Statement>, NodeId> statements_of(const GraphState& graph,
                                                                         const NodeTensors& tensors,
                                                                         NodeId id,
                                                                         const Tensor& tensor);

}  // namespace heddle::jit
