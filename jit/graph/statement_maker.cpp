// The values of nodes of pointwise kinds at places of a statement.
#include "jit/graph/statement_maker.hpp"

#include "jit/describe/expr.hpp"

namespace heddle::jit {

namespace {

/// Clamps to 0 .. `last`.
Expr clamped(const Expr& position, DType dtype, std::int64_t last) {
  if (dtype == DType::u64) return min(position, static_cast<std::uint64_t>(last));
  return min(max(heddle::cast(position, DType::i64), 0), last);
}

}  // namespace

StatementMaker::StatementMaker(const GraphState& graph, const NodeTensors& tensors, Digits digits)
    : graph_(graph), tensors_(tensors), digits_(std::move(digits)), places_(digits_.places()) {
  for (std::uint32_t k = 0; k < digits_.size(); ++k) indices_.emplace_back(digits_.extent(k));
}

std::vector<Subscript> StatementMaker::subscripts(const NodePlaces& places) const {
  std::vector<Subscript> result;
  for (const NodePlace& place : places) {
    Subscript subscript(place.constant);
    for (const auto& [index, coefficient] : place.terms)
      subscript = Subscript::combine(subscript, coefficient, indices_[index]);
    result.push_back(std::move(subscript));
  }
  return result;
}

Expr StatementMaker::read(NodeId id, const NodePlaces& places) {
  if (const auto& tensor = tensors_[id]) {
    const Dims& dims = graph_.type(id).dims;
    const bool is_flat = tensor->dims() != dims;
    return tensor->at(subscripts(is_flat ? NodePlaces{row_major(places, dims)} : places));
  }
  const std::pair key(id, places);
  if (const auto known = known_.find(key); known != known_.end()) return known->second;
  return known_.emplace(key, value(id, places)).first->second;
}

Expr StatementMaker::value(NodeId id, const NodePlaces& places) {
  const GraphNode& node = graph_.node(id);
  switch (node.kind) {
    case NodeKind::constant:
      return typed_constant(node.scalar);
    case NodeKind::iota:
      return heddle::cast(embed(subscripts({places[axis_index(node.fields[0][0])]})[0]),
                          node.type.dtype);
    case NodeKind::element: {
      std::vector<Expr> args;
      for (const NodeId arg : node.args) args.push_back(read(arg, places));
      return apply_op(node.op, args);
    }
    case NodeKind::cast:
      return heddle::cast(read(node.args[0], places), node.type.dtype);
    case NodeKind::broadcast: {
      const Dims& dims = graph_.type(node.args[0]).dims;
      NodePlaces from;
      for (std::size_t k = 0; k < dims.size(); ++k)
        from.push_back(dims[k] == 1 ? NodePlace{} : places[axis_index(node.fields[0][k])]);
      return read(node.args[0], from);
    }
    case NodeKind::transpose: {
      NodePlaces from(places.size());
      for (std::size_t k = 0; k < places.size(); ++k)
        from[axis_index(node.fields[0][k])] = places[k];
      return read(node.args[0], from);
    }
    case NodeKind::slice: {
      NodePlaces from;
      for (std::size_t k = 0; k < places.size(); ++k)
        from.push_back(add({node.fields[0][k], {}}, places[k], node.fields[1][k]));
      return read(node.args[0], from);
    }
    case NodeKind::gather:
      return gathered(node, places);
    case NodeKind::reshape:
      try {
        return read_reshaped(node.args[0], graph_.type(node.args[0]).dims, places, node.type.dims);
      } catch (NotAffine) {
        throw Unreadable{id};
      }
    default:
      throw Unreadable{id};
  }
}

Expr StatementMaker::gathered(const GraphNode& node, const NodePlaces& places) {
  const NodeId x = node.args[0];
  if (!tensors_[x]) throw Unreadable{x};
  const auto indices = std::span(node.args).subspan(1);
  const Numbers& axes = node.fields[0];
  std::vector<Subscript> result = in_window(indices, places);
  const NodePlaces at_indices = places_of_indices(indices, places);
  for (std::size_t k = 0; k < axes.size(); ++k) {
    const std::size_t axis = axis_index(axes[k]);
    const std::int64_t size = node.fields[1][axis];
    const std::int64_t last = graph_.type(x).dims[axis] - size;
    const GraphNode& index = graph_.node(indices[k]);
    // An iota whose places are all inside needs no tensor: its places are affine.
    if (index.kind == NodeKind::iota && !tensors_[indices[k]] && index.type.dtype == DType::i64 &&
        index.type.dims[axis_index(index.fields[0][0])] <= last + 1) {
      result[axis] = result[axis] + subscripts({at_indices[axis_index(index.fields[0][0])]})[0];
      continue;
    }
    // The start of the window does not depend on the place in the window.
    const Expr position = read(indices[k], at_indices);
    result[axis] =
        result[axis] + heddle::at(size == 1 ? position : clamped(position, index.type.dtype, last));
  }
  return tensors_[x]->at(std::move(result));
}

NodePlaces StatementMaker::places_of_indices(std::span<const NodeId> indices,
                                             const NodePlaces& places) const {
  const auto rank = static_cast<std::ptrdiff_t>(graph_.type(indices[0]).dims.size());
  return {places.begin(), places.begin() + rank};
}
std::vector<Subscript> StatementMaker::in_window(std::span<const NodeId> indices,
                                                 const NodePlaces& places) const {
  const auto rank = static_cast<std::ptrdiff_t>(graph_.type(indices[0]).dims.size());
  return subscripts(NodePlaces(places.begin() + rank, places.end()));
}

std::vector<Subscript> StatementMaker::scattered(const GraphNode& node) {
  const auto indices = std::span(node.args).subspan(2);
  std::vector<Subscript> result = in_window(indices, places_);
  const NodePlaces at_indices = places_of_indices(indices, places_);
  for (std::size_t k = 0; k < indices.size(); ++k) {
    Subscript& subscript = result[axis_index(node.fields[0][k])];
    subscript = subscript + heddle::at(read(indices[k], at_indices));
  }
  return result;
}

Expr StatementMaker::read_reshaped(NodeId id, const Dims& from, const NodePlaces& places,
                                   const Dims& to) {
  const auto found = reshaped(places, to, from, digits_);
  if (const Cut* const cut = std::get_if<Cut>(&found)) throw *cut;
  if (std::holds_alternative<NotAffine>(found)) throw NotAffine();
  return read(id, std::get<NodePlaces>(found));
}

}  // namespace heddle::jit
