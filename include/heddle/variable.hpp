// Variables: named trees of arrays that functions of executors read, and replace by what they
// compute: in place, where nobody else has the arrays.
//
//   Variable<Layers<Array>> weights("weights", initial);
//   Executor step(device, [=](const Graph& graph, Node x, Node y) {
//     const Layers<Node> w = weights.read(graph), better = learned(w, x, y);
//     weights.update(graph, better);  // from the next call on
//   });
#pragma once

#include <memory>
#include <source_location>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "heddle/array.hpp"
#include "heddle/graph.hpp"
#include "heddle/tree.hpp"

namespace heddle::rt {
class VariableState;
}  // namespace heddle::rt

#pragma GCC visibility push(default)
namespace heddle {

/// What needs no type of the tree; see Variable.
class VariableBase {
 public:
  VariableBase(const VariableBase&) = default;
  VariableBase& operator=(const VariableBase&) = default;
  [[nodiscard]] const std::string& name() const noexcept;

 protected:
  VariableBase(std::string name, TreeDef structure, std::vector<Array> leaves);
  [[nodiscard]] const TreeDef& structure() const noexcept;
  [[nodiscard]] std::vector<Node> read_leaves(const Graph& graph,
                                              const std::source_location& where) const;
  void update_leaves(const Graph& graph, const TreeDef& structure, std::vector<Node> nodes,
                     const std::source_location& where) const;
  [[nodiscard]] std::vector<Array> leaves() const;
  void set_leaves(const TreeDef& structure, std::vector<Array> leaves) const;

 private:
  friend struct Inside;
  std::shared_ptr<rt::VariableState> state_;
};

/// A shared handle; moving one copies it, so that none is ever empty. Any thread may use it. Calls
/// that update one variable take effect in the order in which they were made, on whichever devices:
/// each reads what the one before has left, and none is lost. A call that is refused changes
/// nothing, nor does one that was accepted and then skipped or cancelled before it began, unless
/// another device was still computing the value at that time. Where a call fails that has begun,
/// the variable has no value until set().
template <class Tree>
  requires TreeOf<Tree, Array>
class Variable : public VariableBase {
 public:
  /// The name is for errors, and of parameters: "weights/layers/3/bias".
  Variable(std::string name, const Tree& arrays)
      : Variable(std::move(name), flatten<Array>(arrays)) {}

  using Nodes = typename trees::MapLeaves<Array, Node>::template Of<Tree>::Type;
  /// In a function of an executor: its value, which is what update() was given before in the same
  /// graph, if it was. Throws failed_precondition for the graph of any other function.
  [[nodiscard]] Nodes read(const Graph& graph,
                           std::source_location where = std::source_location::current()) const {
    return unflatten<Nodes>(structure(), read_leaves(graph, where));
  }
  /// In a function of an executor: its value after each call. Nodes of the same structure and
  /// types, else invalid_argument, naming the path.
  void update(const Graph& graph, const Nodes& nodes,
              std::source_location where = std::source_location::current()) const {
    Flattened<Node> flat = flatten<Node>(nodes);
    update_leaves(graph, flat.def, std::move(flat.leaves), where);
  }
  /// Its arrays after all calls so far: they may be unfinished, and stay as they are: a later call
  /// that updates it takes new memory as long as they are there.
  [[nodiscard]] Tree value() const { return unflatten<Tree>(structure(), leaves()); }
  /// Arrays of the same structure and types, else invalid_argument.
  void set(const Tree& arrays) const {
    Flattened<Array> flat = flatten<Array>(arrays);
    set_leaves(flat.def, std::move(flat.leaves));
  }

 private:
  Variable(std::string name, Flattened<Array> flat)
      : VariableBase(std::move(name), std::move(flat.def), std::move(flat.leaves)) {}
};
template <class Tree>
Variable(std::string, Tree) -> Variable<Tree>;

}  // namespace heddle
#pragma GCC visibility pop
