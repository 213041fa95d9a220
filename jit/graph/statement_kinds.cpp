// The statements of each kind of node.
#include <algorithm>
#include <functional>

#include "jit/describe/expr.hpp"
#include "jit/graph/order_statements.hpp"
#include "jit/graph/plan.hpp"
#include "jit/graph/statement_maker.hpp"

namespace heddle::jit {
namespace {

Reduction::Kind reduction_of(Op op) {
  switch (op) {
    case Op::mul:
      return Reduction::Kind::product;
    case Op::max:
      return Reduction::Kind::maximum;
    case Op::min:
      return Reduction::Kind::minimum;
    case Op::and_:
      return Reduction::Kind::all;
    case Op::or_:
      return Reduction::Kind::any;
    default:
      return Reduction::Kind::sum;
  }
}

bool is_empty(const ArrayType& type) { return type.num_elements() == 0; }

class NodeStatements {
 public:
  NodeStatements(const GraphState& graph, const NodeTensors& tensors, NodeId id,
                 const Tensor& tensor)
      : graph_(graph), tensors_(tensors), id_(id), node_(graph.node(id)), tensor_(tensor) {}

  std::vector<Statement> make() {
    if (is_empty(node_.type)) {
      fill(Scalar::of_int(DType::i32, 0));
    } else if (std::ranges::any_of(node_.args, [this](NodeId arg) {
                 return is_empty(graph_.type(arg)) && node_.kind != NodeKind::concatenate &&
                        node_.kind != NodeKind::scatter;
               })) {
      of_nothing();
    } else {
      of_kind();
    }
    return std::move(statements_);
  }

 private:
  using Make = std::function<Statement(StatementMaker&)>;

  /// A statement over an array of `dims`; cuts digits as reads require.
  void over(const Dims& dims, const Make& make) {
    Digits digits(dims);
    while (true) {
      StatementMaker maker(graph_, tensors_, digits);
      try {
        statements_.push_back(make(maker));
        return;
      } catch (const Cut& cut) {
        digits.cut(cut.index, cut.low);
      }
    }
  }

  void fill(const Scalar& value) {
    over(node_.type.dims, [&](StatementMaker& maker) {
      return tensor_.at(maker.target()) = cast(typed_constant(value), node_.type.dtype);
    });
  }

  /// Fills a result of no terms with the neutral element.
  void of_nothing() {
    if (node_.kind == NodeKind::pad) return pad();
    const Op op = has_op(node_.kind) ? node_.op : Op::add;
    fill(*neutral(op, compute_type(node_.type.dtype)));
  }

  void of_kind() {
    switch (node_.kind) {
      case NodeKind::reduce:
        return reduce();
      case NodeKind::dot:
        return dot();
      case NodeKind::conv:
        return conv();
      case NodeKind::window:
        return window();
      case NodeKind::cumulate:
        return cumulate();
      case NodeKind::concatenate:
        return concatenate();
      case NodeKind::pad:
        return pad();
      case NodeKind::scatter:
        return scatter();
      case NodeKind::sorted:
        return sort();
      case NodeKind::order:
        return order();
      case NodeKind::reshape:
        return reshape();
      default:
        return pointwise();
    }
  }

  /// Writes the kept node's value at each place.
  void pointwise() {
    over(node_.type.dims, [this](StatementMaker& maker) {
      return tensor_.at(maker.target()) = maker.read(id_, maker.places());
    });
  }

  /// Where the axes of neither shape divide the axes of the other shape, the reshape goes through
  /// one flat axis: in the tensor itself where the tensor is flat, or in a further tensor.
  void reshape() {
    const bool is_flat = tensor_.dims() != node_.type.dims;
    if (!is_flat) {
      try {
        return pointwise();
      } catch (const StatementMaker::Unreadable& unreadable) {
        if (unreadable.id != id_) throw;
      }
    }
    const NodeId arg = node_.args[0];
    const Tensor flat =
        is_flat ? tensor_
                : Tensor(tensor_.label() + "_flat", node_.type.dtype, {*node_.type.num_elements()});
    over(flat.dims(), [&](StatementMaker& maker) {
      return flat.at(maker.target()) =
                 maker.read_reshaped(arg, graph_.type(arg).dims, maker.places(), flat.dims());
    });
    if (is_flat) return;
    over(node_.type.dims, [&](StatementMaker& maker) {
      const NodePlace place = row_major(maker.places(), node_.type.dims);
      return tensor_.at(maker.target()) = flat.at(maker.subscripts({place}));
    });
  }

  /// Terms are taken in the row-major order of the statement's axes.
  Statement accumulate(const StatementMaker& maker, const std::vector<Subscript>& target, Op op,
                       const Expr& value) const {
    return in_order(tensor_.at(target) = Reduction(reduction_of(op), value), maker.target());
  }

  /// Runs over the operand's axes; the target has the axes that are not reduced.
  void reduce() {
    const Numbers& gone = node_.fields[0];
    over(graph_.type(node_.args[0]).dims, [&](StatementMaker& maker) {
      NodePlaces kept;
      for (std::size_t axis = 0; axis < maker.places().size(); ++axis) {
        if (!std::ranges::binary_search(gone, static_cast<std::int64_t>(axis)))
          kept.push_back(maker.places()[axis]);
      }
      return accumulate(maker, maker.subscripts(kept), node_.op,
                        maker.read(node_.args[0], maker.places()));
    });
  }

  /// Runs over the result's axes, then the contracted axes.
  void dot() {
    const ArrayType& a = graph_.type(node_.args[0]);
    const ArrayType& b = graph_.type(node_.args[1]);
    const Numbers& batch_a = node_.fields[0];
    const Numbers& batch_b = node_.fields[1];
    const Numbers& contract_a = node_.fields[2];
    const Numbers& contract_b = node_.fields[3];
    Dims dims = node_.type.dims;
    for (const std::int64_t axis : contract_a) dims.push_back(a.dims[axis_index(axis)]);
    over(dims, [&](StatementMaker& maker) {
      const NodePlaces& all = maker.places();
      std::size_t next = batch_a.size();
      const auto factor = [&](const ArrayType& type, const Numbers& batch,
                              const Numbers& contract) {
        NodePlaces places(type.dims.size());
        std::vector<bool> taken(places.size(), false);
        for (std::size_t k = 0; k < batch.size(); ++k) {
          places[axis_index(batch[k])] = all[k];
          taken[axis_index(batch[k])] = true;
        }
        for (std::size_t k = 0; k < contract.size(); ++k) {
          places[axis_index(contract[k])] = all[node_.type.dims.size() + k];
          taken[axis_index(contract[k])] = true;
        }
        for (std::size_t axis = 0; axis < places.size(); ++axis) {
          if (!taken[axis]) places[axis] = all[next++];
        }
        return places;
      };
      const NodePlaces left = factor(a, batch_a, contract_a);
      const NodePlaces right = factor(b, batch_b, contract_b);
      return accumulate(maker, result_part(maker), Op::add,
                        maker.read(node_.args[0], left) * maker.read(node_.args[1], right));
    });
  }

  /// The leading subscripts of a statement: the axes of the result.
  std::vector<Subscript> result_part(const StatementMaker& maker) const {
    const auto rank = static_cast<std::ptrdiff_t>(node_.type.dims.size());
    return maker.subscripts(NodePlaces(maker.places().begin(), maker.places().begin() + rank));
  }

  /// x[n, g, c, step * t + dilation * k] w[g, o, c, k] over c and k.
  void conv() {
    const Dims& w = graph_.type(node_.args[1]).dims;
    Dims dims = node_.type.dims;  // n, g, o, t...
    dims.insert(dims.end(), w.begin() + 2, w.end());
    const std::size_t rank = node_.type.dims.size();
    over(dims, [&](StatementMaker& maker) {
      const NodePlaces& all = maker.places();
      NodePlaces image{all[0], all[1], all[rank]};
      NodePlaces filter{all[1], all[2], all[rank]};
      for (std::size_t k = 0; k + 3 < rank; ++k) {
        const NodePlace& tap = all[rank + 1 + k];
        image.push_back(add(scale(all[3 + k], node_.fields[0][k]), tap, node_.fields[1][k]));
        filter.push_back(tap);
      }
      return accumulate(maker, result_part(maker), Op::add,
                        maker.read(node_.args[0], image) * maker.read(node_.args[1], filter));
    });
  }

  void window() {
    Dims dims = node_.type.dims;
    dims.insert(dims.end(), node_.fields[0].begin(), node_.fields[0].end());
    const std::size_t rank = node_.type.dims.size();
    over(dims, [&](StatementMaker& maker) {
      const NodePlaces& all = maker.places();
      NodePlaces places;
      for (std::size_t k = 0; k < rank; ++k) {
        places.push_back(add(scale(all[k], node_.fields[1][k]), all[rank + k], node_.fields[2][k]));
      }
      return accumulate(maker, result_part(maker), node_.op, maker.read(node_.args[0], places));
    });
  }

  /// The first element is the operand's; a second statement combines each further element of the
  /// operand with the result's element before. Along the last axis a sequential loop would compute
  /// the operand without vectors: an operand that is not in memory is copied to the result first.
  void cumulate() {
    const std::size_t axis = axis_index(node_.fields[0][0]);
    const bool down = node_.fields[1][0] != 0;
    const NodeId arg = node_.args[0];
    const bool copies = axis + 1 == node_.type.dims.size() && !tensors_[arg];
    const std::int64_t last = node_.type.dims[axis] - 1;
    const auto operand = [&](StatementMaker& maker, const NodePlaces& places) {
      return cast(maker.read(arg, places), node_.type.dtype);
    };
    Dims dims = node_.type.dims;
    if (!copies) dims[axis] = 1;
    over(dims, [&](StatementMaker& maker) {
      NodePlaces places = maker.places();
      if (!copies && down) places[axis] = {last, {}};
      return tensor_.at(maker.subscripts(places)) = operand(maker, places);
    });
    dims[axis] = last;
    if (last == 0) return;
    over(dims, [&](StatementMaker& maker) {
      NodePlaces before = maker.places();
      NodePlaces here = maker.places();
      before[axis] = down ? add({last, {}}, before[axis], -1) : before[axis];
      here[axis] = down ? add({last - 1, {}}, here[axis], -1) : add({1, {}}, here[axis]);
      const Access to = tensor_.at(maker.subscripts(here));
      const Expr next = copies ? Expr(to) : operand(maker, here);
      return to = apply_op(node_.op, {tensor_.at(maker.subscripts(before)), next});
    });
  }

  void concatenate() {
    const std::size_t axis = axis_index(node_.fields[0][0]);
    std::int64_t offset = 0;
    for (const NodeId arg : node_.args) {
      const ArrayType& part = graph_.type(arg);
      if (!is_empty(part)) {
        over(part.dims, [&](StatementMaker& maker) {
          NodePlaces to = maker.places();
          to[axis] = add(to[axis], {offset, {}});
          return tensor_.at(maker.subscripts(to)) = maker.read(arg, maker.places());
        });
      }
      offset += part.dims[axis];
    }
  }

  /// Copies the operand; a second statement combines each update into the copy.
  void scatter() {
    const ArrayType& updates = graph_.type(node_.args[1]);
    over(node_.type.dims, [this](StatementMaker& maker) {
      return tensor_.at(maker.target()) = maker.read(node_.args[0], maker.places());
    });
    if (is_empty(updates)) return;
    require_indices();
    over(updates.dims, [&](StatementMaker& maker) {
      const std::vector<Subscript> to = maker.scattered(node_);
      const Expr update = maker.read(node_.args[1], maker.places());
      return tensor_.at(to) =
                 node_.op == Op::arg2 ? update : apply_op(node_.op, {tensor_.at(to), update});
    });
  }
  /// Requires every index array in a tensor (an iota may stay without), and at least one of them.
  /// Reading an index array on the left side puts all indices of the statement there.
  void require_indices() const {
    const auto indices = std::span(node_.args).subspan(2);
    bool any = false;
    for (const NodeId each : indices) {
      if (graph_.node(each).kind == NodeKind::iota && !tensors_[each]) continue;
      if (!tensors_[each]) throw StatementMaker::Unreadable{each};
      any = true;
    }
    if (!any) throw StatementMaker::Unreadable{indices[0]};
  }

  void sort() {
    const Tensor keys(tensor_.label() + "_key", node_.type.dtype, node_.type.dims);
    over(node_.type.dims, [&](StatementMaker& maker) {
      return keys.at(maker.target()) = maker.read(node_.args[0], maker.places());
    });
    std::vector<Subscript> place;
    for (const std::int64_t extent : node_.type.dims) place.emplace_back(Index(extent));
    statements_.push_back(sorted(tensor_.at(place) = keys.at(place)));
  }

  /// Moves the sorted axis of the keys to the end, then sorts.
  void order() {
    const std::size_t axis = axis_index(node_.fields[0][0]);
    std::vector<Tensor> keys;
    for (const NodeId arg : node_.args) {
      const ArrayType& type = graph_.type(arg);
      Dims dims = type.dims;
      std::rotate(dims.begin() + static_cast<std::ptrdiff_t>(axis),
                  dims.begin() + static_cast<std::ptrdiff_t>(axis) + 1, dims.end());
      const Tensor& key =
          keys.emplace_back(tensor_.label() + "_key", key_type(type.dtype, type.dims[axis]), dims);
      over(dims, [&](StatementMaker& maker) {
        NodePlaces from = maker.places();
        std::rotate(from.begin() + static_cast<std::ptrdiff_t>(axis), from.end() - 1, from.end());
        return key.at(maker.target()) = cast(maker.read(arg, from), key.dtype());
      });
    }
    for (const Statement& each : order_statements(tensor_, axis, keys)) statements_.push_back(each);
  }

  /// Writes the padding value to the box of `dims` elements from `from` on.
  void fill_box(const Dims& from, const Dims& dims) {
    if (ArrayType{DType::bool_, dims}.num_elements() == 0) return;
    over(dims, [&](StatementMaker& maker) {
      NodePlaces to = maker.places();
      for (std::size_t k = 0; k < to.size(); ++k) to[k] = add(to[k], {from[k], {}});
      return tensor_.at(maker.subscripts(to)) = maker.read(node_.args[1], {});
    });
  }

  /// Fills the borders one axis after the other, each border as wide as the part not yet filled.
  /// Interior padding fills the whole result.
  void pad() {
    const Dims& dims = graph_.type(node_.args[0]).dims;
    const Numbers& low = node_.fields[0];
    const Numbers& high = node_.fields[1];
    const Numbers& interior = node_.fields[2];
    Dims from(dims.size(), 0);
    Dims left = node_.type.dims;
    const bool apart = std::ranges::any_of(interior, [](std::int64_t n) { return n != 0; });
    if (apart) fill_box(from, left);
    for (std::size_t k = 0; k < dims.size() && !apart; ++k) {
      const auto border = [&](std::int64_t start, std::int64_t count) {
        Dims first = from;
        Dims box = left;
        first[k] = start;
        box[k] = count;
        fill_box(first, box);
      };
      border(0, low[k]);
      border(node_.type.dims[k] - high[k], high[k]);
      from[k] = low[k];
      left[k] = dims[k];
    }
    if (is_empty(graph_.type(node_.args[0]))) return;
    over(dims, [&](StatementMaker& maker) {
      NodePlaces to = maker.places();
      for (std::size_t k = 0; k < to.size(); ++k) to[k] = add({low[k], {}}, to[k], interior[k] + 1);
      return tensor_.at(maker.subscripts(to)) = maker.read(node_.args[0], maker.places());
    });
  }

  const GraphState& graph_;
  const NodeTensors& tensors_;
  NodeId id_;
  const GraphNode& node_;
  const Tensor& tensor_;
  std::vector<Statement> statements_;
};

}  // namespace

std::variant<std::vector<Statement>, NodeId> statements_of(const GraphState& graph,
                                                           const NodeTensors& tensors, NodeId id,
                                                           const Tensor& tensor) {
  try {
    return NodeStatements(graph, tensors, id, tensor).make();
  } catch (const StatementMaker::Unreadable& unreadable) {
    return unreadable.id;
  }
}

}  // namespace heddle::jit
