// Variables: named trees of arrays that functions of executors read and update. An update is in
// place if no other handle holds the arrays.
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

/// The part of Variable that does not depend on the type of the tree.
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

/// A shared handle; a move copies the handle, so no handle is ever empty. Thread-safe. Updates of
/// one variable take effect in the order of the calls, on whichever devices: a call reads the value
/// left by the previous call, and no update is lost. A refused call changes nothing; nor does an
/// accepted call that was skipped or cancelled before it began, unless the value was still being
/// computed on a different device at that time. If a call fails after it began, the variable has no
/// value until set().
template <class Tree>
  requires TreeOf<Tree, Array>
class Variable : public VariableBase {
 public:
  /// `name` appears in errors, and in names of parameters: "weights/layers/3/bias".
  Variable(std::string name, const Tree& arrays)
      : Variable(std::move(name), flatten<Array>(arrays)) {}

  using Nodes = typename trees::MapLeaves<Array, Node>::template Of<Tree>::Type;
  /// Inside a function of an executor: the variable's value, or the value given to update() earlier
  /// in the same graph. Throws failed_precondition for any other graph.
  [[nodiscard]] Nodes read(const Graph& graph,
                           std::source_location where = std::source_location::current()) const {
    return unflatten<Nodes>(structure(), read_leaves(graph, where));
  }
  /// Inside a function of an executor: sets the variable's value after every call. Throws
  /// invalid_argument naming the path if the structure or types of `nodes` differ.
  void update(const Graph& graph, const Nodes& nodes,
              std::source_location where = std::source_location::current()) const {
    Flattened<Node> flat = flatten<Node>(nodes);
    update_leaves(graph, flat.def, std::move(flat.leaves), where);
  }
  /// The arrays after every call so far. The arrays may be unfinished, and never change: a later
  /// call that updates the variable uses new memory as long as the arrays exist.
  [[nodiscard]] Tree value() const { return unflatten<Tree>(structure(), leaves()); }
  /// Throws invalid_argument if the structure or types of `arrays` differ.
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
