// See graph_interpreter.hpp.
#include "support/graph_interpreter.hpp"

#include <algorithm>
#include <optional>
#include <stdexcept>

#include "jit/graph/state.hpp"
#include "jit/system/inside.hpp"
#include "jit/value/element.hpp"
#include "support/scalar_reference.hpp"

namespace heddle::jit::testing {
namespace {

using At = std::vector<std::int64_t>;  // an element's index along each axis

/// Visits the elements in row-major order.
template <class Visit>
void each_element(const Dims& dims, const Visit& visit) {
  if (ArrayType{DType::bool_, dims}.num_elements() == 0) return;
  At at(dims.size(), 0);
  while (true) {
    visit(std::as_const(at));
    std::size_t axis = dims.size();
    while (axis > 0 && ++at[axis - 1] == dims[axis - 1]) at[--axis] = 0;
    if (axis == 0) return;
  }
}

std::size_t offset(const Dims& dims, const At& at) {
  std::size_t place = 0;
  for (std::size_t axis = 0; axis < dims.size(); ++axis)
    place = place * axis_index(dims[axis]) + axis_index(at[axis]);
  return place;
}

struct Values {
  ArrayType type;
  std::vector<Scalar> elements;
  [[nodiscard]] const Scalar& operator()(const At& at) const {
    return elements.at(offset(type.dims, at));
  }
};

Scalar reference_apply(Op op, std::vector<Scalar> args) {
  std::vector<DType> types;
  for (const Scalar& arg : args) types.push_back(arg.dtype);
  const OpTyping typing = type_op(op, types).value();
  for (std::size_t k = 0; k < args.size(); ++k) {
    const bool condition = op == Op::where && k == 0;
    args[k] = reference_cast(args[k], condition ? DType::bool_ : typing.operands);
  }
  return reference_value(op, typing.result, args);
}

/// A sum, product, maximum or minimum as statements compute one: starts with the neutral element,
/// rounded once at the end; with a single term, the result is the term.
class Accumulator {
 public:
  Accumulator(Op op, DType result)
      : op_(op), result_(result), value_(*neutral(op, compute_type(result))) {}
  void add(const Scalar& term) {
    ++terms_;
    first_ = term;
    value_ = reference_cast(reference_apply(op_, {value_, term}), value_.dtype);
  }
  [[nodiscard]] Scalar value() const {
    return reference_cast(terms_ == 1 ? first_ : value_, result_);
  }

 private:
  Op op_;
  DType result_;
  Scalar value_;
  int terms_ = 0;
  Scalar first_;
};

class NodeInterpreter {
 public:
  NodeInterpreter(const GraphState& graph, const std::vector<HostArray>& arguments)
      : graph_(graph), arguments_(arguments) {}

  std::vector<HostArray> run() {
    for (NodeId id = 0; id < graph_.nodes.size(); ++id) values_.push_back(values_of(id));
    std::vector<HostArray> results;
    for (const NodeId id : graph_.results) results.push_back(array_of(id));
    for (const auto& [id, message] : graph_.marks) results.push_back(array_of(id));
    return results;
  }

 private:
  HostArray array_of(NodeId id) const {
    HostArray array(values_[id].type);
    for (std::size_t k = 0; k < values_[id].elements.size(); ++k)
      store_element(array.type().dtype, array.data(), k, values_[id].elements[k]);
    return array;
  }
  Values values_of(NodeId id) {
    node_ = &graph_.node(id);
    Values values{node_->type, {}};
    if (node_->kind == NodeKind::cumulate) return cumulated();
    if (node_->kind == NodeKind::scatter) return scattered();
    if (node_->kind == NodeKind::order) return ordered();
    if (node_->kind == NodeKind::sorted) return sorted();
    each_element(node_->type.dims, [&](const At& at) { values.elements.push_back(element(at)); });
    return values;
  }

  [[nodiscard]] const Values& arg(std::size_t k) const { return values_[node_->args[k]]; }
  [[nodiscard]] std::int64_t field(std::size_t n, std::size_t k) const {
    return node_->fields[n][k];
  }

  Scalar element(const At& at) const {
    switch (node_->kind) {
      case NodeKind::parameter: {
        const HostArray& array = arguments_.at(axis_index(field(0, 0)));
        return load_element(array.type().dtype, array.data(), offset(array.type().dims, at));
      }
      case NodeKind::constant:
        return node_->scalar;
      case NodeKind::iota:
        return reference_cast(Scalar::of_int(DType::i64, at[axis_index(field(0, 0))]),
                              node_->type.dtype);
      case NodeKind::element: {
        std::vector<Scalar> args;
        for (std::size_t k = 0; k < node_->args.size(); ++k) args.push_back(arg(k)(at));
        return reference_apply(node_->op, std::move(args));
      }
      case NodeKind::cast:
        return reference_cast(arg(0)(at), node_->type.dtype);
      case NodeKind::reshape:
        return arg(0).elements.at(offset(node_->type.dims, at));
      default:
        return moved(at);
    }
  }

  Scalar moved(const At& at) const {
    At from(arg(0).type.dims.size(), 0);
    switch (node_->kind) {
      case NodeKind::broadcast:
        for (std::size_t k = 0; k < from.size(); ++k)
          from[k] = arg(0).type.dims[k] == 1 ? 0 : at[axis_index(field(0, k))];
        return arg(0)(from);
      case NodeKind::transpose:
        for (std::size_t k = 0; k < from.size(); ++k) from[axis_index(field(0, k))] = at[k];
        return arg(0)(from);
      case NodeKind::slice:
        for (std::size_t k = 0; k < from.size(); ++k) from[k] = field(0, k) + field(1, k) * at[k];
        return arg(0)(from);
      case NodeKind::concatenate:
        return concatenated(at);
      case NodeKind::pad:
        return padded(at);
      default:
        return accumulated(at);
    }
  }

  Scalar concatenated(At at) const {
    const std::size_t axis = axis_index(field(0, 0));
    std::size_t part = 0;
    while (at[axis] >= arg(part).type.dims[axis]) at[axis] -= arg(part++).type.dims[axis];
    return arg(part)(at);
  }

  Scalar padded(At at) const {
    for (std::size_t k = 0; k < at.size(); ++k) {
      const std::int64_t step = field(2, k) + 1;
      at[k] -= field(0, k);
      if (at[k] < 0 || at[k] % step != 0 || at[k] / step >= arg(0).type.dims[k])
        return arg(1).elements.at(0);
      at[k] /= step;
    }
    return arg(0)(at);
  }

  Scalar accumulated(const At& at) const {
    switch (node_->kind) {
      case NodeKind::reduce:
        return reduced(at);
      case NodeKind::window:
        return windowed(at);
      case NodeKind::dot:
        return dotted(at);
      case NodeKind::conv:
        return convolved(at);
      case NodeKind::gather:
        return gathered(at);
      default:
        throw std::logic_error("a kind that this interpreter does not know");
    }
  }

  Scalar reduced(const At& at) const {
    const Values& x = arg(0);
    Dims terms;
    for (const std::int64_t axis : node_->fields[0]) terms.push_back(x.type.dims[axis_index(axis)]);
    Accumulator sum(node_->op, node_->type.dtype);
    each_element(terms, [&](const At& term) {
      At from;
      std::size_t kept = 0;
      std::size_t gone = 0;
      for (std::size_t axis = 0; axis < x.type.dims.size(); ++axis) {
        const bool reduces =
            std::ranges::binary_search(node_->fields[0], static_cast<std::int64_t>(axis));
        from.push_back(reduces ? term[gone++] : at[kept++]);
      }
      sum.add(x(from));
    });
    return sum.value();
  }

  Scalar windowed(const At& at) const {
    Accumulator sum(node_->op, node_->type.dtype);
    each_element(Dims(node_->fields[0]), [&](const At& term) {
      At from;
      for (std::size_t k = 0; k < at.size(); ++k)
        from.push_back(at[k] * field(1, k) + term[k] * field(2, k));
      sum.add(arg(0)(from));
    });
    return sum.value();
  }

  /// Index of a factor's element: batch axes, then own axes from `next` on, then the terms.
  At factor(const Values& x, std::size_t batch, std::size_t contract, const At& at,
            std::size_t& next, const At& term) const {
    At from(x.type.dims.size(), -1);
    for (std::size_t k = 0; k < node_->fields[batch].size(); ++k)
      from[axis_index(field(batch, k))] = at[k];
    for (std::size_t k = 0; k < term.size(); ++k) from[axis_index(field(contract, k))] = term[k];
    for (std::int64_t& place : from) {
      if (place < 0) place = at[next++];
    }
    return from;
  }

  Scalar dotted(const At& at) const {
    Dims terms;
    for (const std::int64_t axis : node_->fields[2])
      terms.push_back(arg(0).type.dims[axis_index(axis)]);
    Accumulator sum(Op::add, node_->type.dtype);
    each_element(terms, [&](const At& term) {
      std::size_t next = node_->fields[0].size();
      const At left = factor(arg(0), 0, 2, at, next, term);
      const At right = factor(arg(1), 1, 3, at, next, term);
      sum.add(reference_apply(Op::mul, {arg(0)(left), arg(1)(right)}));
    });
    return sum.value();
  }

  Scalar convolved(const At& at) const {
    const Dims& w = arg(1).type.dims;
    Accumulator sum(Op::add, node_->type.dtype);
    each_element(Dims(std::vector<std::int64_t>(w.begin() + 2, w.end())), [&](const At& term) {
      At image{at[0], at[1], term[0]};
      At filter{at[1], at[2], term[0]};
      for (std::size_t k = 0; k + 1 < term.size(); ++k) {
        image.push_back(at[3 + k] * field(0, k) + term[1 + k] * field(1, k));
        filter.push_back(term[1 + k]);
      }
      sum.add(reference_apply(Op::mul, {arg(0)(image), arg(1)(filter)}));
    });
    return sum.value();
  }

  /// Rounds every element, because the next element starts from the rounded value.
  Values cumulated() const {
    const std::size_t axis = axis_index(field(0, 0));
    const DType type = node_->type.dtype;
    Values sums{node_->type, std::vector<Scalar>(arg(0).elements.size())};
    const std::int64_t extent = node_->type.dims[axis];
    each_element(node_->type.dims, [&](At at) {
      const bool down = field(1, 0) != 0;
      const bool first = at[axis] == 0;
      if (down) at[axis] = extent - 1 - at[axis];
      Scalar value = reference_cast(arg(0)(at), type);
      if (!first) {
        At before = at;
        before[axis] += down ? 1 : -1;
        value = reference_cast(reference_apply(node_->op, {sums(before), value}), type);
      }
      sums.elements[offset(node_->type.dims, at)] = value;
    });
    return sums;
  }

  /// Start, along each axis of x, of the window of `sizes` whose indices are at `b`; index arrays
  /// are the operands from `first` on. None: the window does not fit.
  std::optional<At> window_start(const At& b, const Dims& x, const Dims& sizes, std::size_t first,
                                 bool clamps) const {
    At start(x.size(), 0);
    for (std::size_t k = 0; k < node_->fields[0].size(); ++k) {
      const std::size_t axis = axis_index(field(0, k));
      const Scalar& index = arg(first + k)(b);
      const std::int64_t last = x[axis] - sizes[axis];
      const bool is_large = index.i < 0 && index.dtype == DType::u64;
      if (!clamps && (is_large || index.i < 0 || index.i > last)) return std::nullopt;
      start[axis] = is_large ? last : std::clamp<std::int64_t>(index.i, 0, last);
    }
    return start;
  }

  Scalar gathered(const At& at) const {
    const auto batch = static_cast<std::ptrdiff_t>(arg(1).type.dims.size());
    At from = *window_start(At(at.begin(), at.begin() + batch), arg(0).type.dims,
                            Dims(node_->fields[1]), 1, true);
    for (std::size_t k = 0; k < from.size(); ++k) from[k] += at[axis_index(batch) + k];
    return arg(0)(from);
  }

  Values scattered() const {
    const Dims& updates = arg(1).type.dims;
    const auto batch = static_cast<std::ptrdiff_t>(arg(2).type.dims.size());
    const Dims sizes(std::vector<std::int64_t>(updates.begin() + batch, updates.end()));
    Values result = arg(0);
    each_element(updates, [&](const At& at) {
      auto to = window_start(At(at.begin(), at.begin() + batch), result.type.dims, sizes, 2, false);
      if (!to) return;
      for (std::size_t k = 0; k < to->size(); ++k) (*to)[k] += at[axis_index(batch) + k];
      Scalar& value = result.elements.at(offset(result.type.dims, *to));
      value = node_->op == Op::arg2
                  ? arg(1)(at)
                  : reference_cast(reference_apply(node_->op, {value, arg(1)(at)}), value.dtype);
    });
    return result;
  }

  /// True where place a sorts before place b by the keys; equal keys sort by place.
  bool is_before(const At& a, const At& b) const {
    for (std::size_t k = 0; k < node_->args.size(); ++k) {
      const auto of_a = static_cast<std::uint64_t>(arg(k)(a).i);
      const auto of_b = static_cast<std::uint64_t>(arg(k)(b).i);
      if (of_a != of_b) return of_a < of_b;
    }
    return a < b;
  }
  Values sorted() const {
    Values rows = arg(0);
    const auto count = static_cast<std::ptrdiff_t>(rows.type.dims.back());
    for (auto row = rows.elements.begin(); row != rows.elements.end(); row += count) {
      std::sort(row, row + count, [](const Scalar& a, const Scalar& b) {
        return static_cast<std::uint64_t>(a.i) < static_cast<std::uint64_t>(b.i);
      });
    }
    return rows;
  }
  Values ordered() const {
    const std::size_t axis = axis_index(field(0, 0));
    Values places{node_->type, std::vector<Scalar>(arg(0).elements.size())};
    Dims rows = node_->type.dims;
    if (rows[axis] > 0) rows[axis] = 1;
    each_element(rows, [&](const At& row) {
      std::vector<At> order(axis_index(node_->type.dims[axis]), row);
      for (std::size_t k = 0; k < order.size(); ++k) order[k][axis] = static_cast<std::int64_t>(k);
      std::ranges::sort(order, [this](const At& a, const At& b) { return is_before(a, b); });
      At to = row;
      for (const At& from : order) {
        places.elements[offset(node_->type.dims, to)] =
            Scalar::of_int(node_->type.dtype, from[axis]);
        ++to[axis];
      }
    });
    return places;
  }

  const GraphState& graph_;
  const std::vector<HostArray>& arguments_;
  std::vector<Values> values_;
  const GraphNode* node_ = nullptr;  // the node being interpreted
};

bool sums_floats(const GraphNode& node) {
  switch (node.kind) {
    case NodeKind::dot:
    case NodeKind::conv:
      return is_floating(node.type.dtype);
    case NodeKind::reduce:
    case NodeKind::window:
    case NodeKind::cumulate:
      return is_floating(node.type.dtype) && (node.op == Op::add || node.op == Op::mul);
    default:
      return false;
  }
}

}  // namespace

bool any_order_is_exact(const Graph& graph) {
  const auto& state = *Inside::of(graph);
  std::vector<bool> needed(state.nodes.size());
  for (const NodeId id : state.results) needed[id] = true;
  for (const auto& [id, message] : state.marks) needed[id] = true;
  for (auto id = static_cast<NodeId>(needed.size()); id-- > 0;) {
    if (!needed[id]) continue;
    if (sums_floats(state.node(id))) return false;
    for (const NodeId arg : state.node(id).args) needed[arg] = true;
  }
  return true;
}

std::vector<HostArray> interpret(const Graph& graph, const std::vector<HostArray>& arguments) {
  return NodeInterpreter(*Inside::of(graph), arguments).run();
}

}  // namespace heddle::jit::testing
