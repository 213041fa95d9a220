// Tracing: makes graphs of functions of arrays (heddle/graph.hpp). trace() calls a function once,
// with nodes in place of arrays, and records the operations as a Graph. Arguments and results are
// trees (heddle/tree.hpp).
//
//   auto mlp = trace("mlp", [](const Layers<Node>& layers, Node x) { ... return softmax(x); },
//                    types_of_layers, ArrayType{f32, {32, 784}});
//
// Traces are independent: any number of threads may trace at once, and a traced function may trace
// other functions, into graphs of their own.
#pragma once

#include <concepts>
#include <cstddef>
#include <functional>
#include <source_location>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "heddle/graph.hpp"
#include "heddle/tree.hpp"
#include "heddle/types.hpp"

#pragma GCC visibility push(default)
namespace heddle {

namespace tracing {
class Tracer;

/// The tree type with nodes in place of types as leaves.
template <class Types>
using NodesOf = typename trees::MapLeaves<ArrayType, Node>::template Of<Types>::Type;

/// A function callable with these nodes, or with a graph and these nodes.
template <class Function, class... Nodes>
concept TakesNodes = std::invocable<Function&, Nodes...>;
template <class Function, class... Nodes>
concept TakesGraph =
    !TakesNodes<Function, Nodes...> && std::invocable<Function&, const Graph&, Nodes...>;

template <class Function, class... Nodes>
struct Returned {
  using Type = void;
};
template <class Function, class... Nodes>
  requires TakesNodes<Function, Nodes...>
struct Returned<Function, Nodes...> {
  using Type = std::remove_cvref_t<std::invoke_result_t<Function&, Nodes...>>;
};
template <class Function, class... Nodes>
  requires TakesGraph<Function, Nodes...>
struct Returned<Function, Nodes...> {
  using Type = std::remove_cvref_t<std::invoke_result_t<Function&, const Graph&, Nodes...>>;
};
/// The result type of a function called with nodes of these types.
template <class Function, class... Types>
using ResultsOf = typename Returned<Function, NodesOf<Types>...>::Type;

template <class Types>
concept HasNodes = TreeOf<NodesOf<Types>, Node>;
template <class Function, class... Types>
concept TakesNodesOf =
    TakesNodes<Function, NodesOf<Types>...> || TakesGraph<Function, NodesOf<Types>...>;

/// True if a function can be traced; if not, a static_assert says why.
template <class Function, class... Types>
constexpr bool checked() {
  static_assert((trees::Checked<Types, ArrayType>::value && ...));
  if constexpr ((TreeOf<Types, ArrayType> && ...)) {
    static_assert((HasNodes<Types> && ...),
                  "heddle: a struct has ArrayTypes, and cannot have nodes. Make it a template of "
                  "its leaves: template <class T> struct Dense { T weight; };");
    if constexpr ((HasNodes<Types> && ...)) {
      static_assert(TakesNodesOf<Function, Types...>,
                    "heddle: what is traced takes an argument for each of the types, a Node or a "
                    "tree of Nodes in place of each, by value or const reference; a const Graph& "
                    "may come before them.");
      if constexpr (TakesNodesOf<Function, Types...>) {
        using Results = ResultsOf<Function, Types...>;
        static_assert(!std::is_void_v<Results>,
                      "heddle: what is traced returns a Node or a tree of Nodes; this returns "
                      "nothing.");
        if constexpr (!std::is_void_v<Results>) {
          static_assert(trees::Checked<Results, Node>::value);
          return TreeOf<Results, Node>;
        }
      }
    }
  }
  return false;
}

}  // namespace tracing

/// A function accepted by trace() with these types. A type is an ArrayType or a tree of ArrayTypes
/// whose structs are templates of their leaf type. The function takes one argument per type, with
/// Node in place of ArrayType. A const Graph& parameter may come first: for constants, scopes, and
/// functions without arguments. The function returns a Node, or a tree of Nodes.
template <class Function, class... Types>
concept Traceable = (TreeOf<Types, ArrayType> && ...) && (tracing::HasNodes<Types> && ...) &&
                    tracing::TakesNodesOf<Function, Types...> &&
                    TreeOf<tracing::ResultsOf<Function, Types...>, Node>;

/// The name that graphs and errors give a function, and the source location of the call of trace().
class TraceName {
 public:
  TraceName() = default;  ///< for a function without a name
  template <std::convertible_to<std::string_view> Text>
  TraceName(const Text& text,  // NOLINT: implicit by design, trace("mlp", ...)
            std::source_location where = std::source_location::current())
      : text_(static_cast<std::string_view>(text)), where_(where) {}
  [[nodiscard]] const std::string& text() const noexcept { return text_; }
  [[nodiscard]] std::source_location where() const noexcept { return where_; }

 private:
  std::string text_ = "graph";
  std::source_location where_{};
};

/// The graph of a function, and the structures of the function's arguments and results, which
/// convert between trees and the flat lists of the graph's parameters and results. A value.
class TracedGraph {
 public:
  [[nodiscard]] const Graph& graph() const noexcept { return graph_; }  ///< finished
  [[nodiscard]] const std::string& name() const noexcept { return graph_.name(); }
  /// "{arg0: *, arg1: {weight: *, bias: *}}": a field for each argument. The path of leaf k,
  /// "arg1/weight", is the name of parameter k of the graph. Parameters made by the function come
  /// last.
  [[nodiscard]] const TreeDef& arguments() const noexcept { return arguments_; }
  /// The structure of the function's result; leaf k is result k of the graph.
  [[nodiscard]] const TreeDef& results() const noexcept { return results_; }
  /// The lowered program, with new tensors at every call.
  [[nodiscard]] GraphProgram program() const { return graph_.program(); }

  /// The leaves of arguments, in the order of the graph's parameters. Throws invalid_argument,
  /// naming the first path that differs, if the trees have another structure than the traced
  /// arguments.
  template <class Leaf, class... Trees>
  [[nodiscard]] std::vector<Leaf> flatten_arguments(const Trees&... trees) const {
    static_assert((trees::Checked<Trees, Leaf>::value && ...));
    std::vector<Leaf> leaves;
    std::vector<TreeDef> defs;
    (defs.push_back(trees::gather(trees, leaves)), ...);
    require_arguments(std::move(defs));
    return leaves;
  }

 private:
  friend class tracing::Tracer;
  TracedGraph(Graph graph, TreeDef arguments, TreeDef results)
      : graph_(std::move(graph)), arguments_(std::move(arguments)), results_(std::move(results)) {}
  void require_arguments(std::vector<TreeDef> found) const;

  Graph graph_;
  TreeDef arguments_, results_;
};

/// A TracedGraph with the function's result type, `Results`: a Node, or a tree of Nodes.
template <class Results>
class Traced : public TracedGraph {
 public:
  /// The tree of results with these leaves, in the order of the graph's results: the type that the
  /// function returned, with leaves of type Leaf (see tree_map()). Throws invalid_argument for
  /// another number of leaves.
  template <class Leaf>
  [[nodiscard]] auto unflatten_results(std::vector<Leaf> leaves) const {
    using Made = typename trees::MapLeaves<Node, Leaf>::template Of<Results>::Type;
    static_assert(TreeOf<Made, Leaf>,
                  "heddle: the traced function returns a struct that has nodes, and cannot have "
                  "other leaves. Make it a template: template <class T> struct Dense { T weight; "
                  "};");
    return unflatten<Made>(results(), std::move(leaves));
  }

 private:
  friend class tracing::Tracer;
  explicit Traced(TracedGraph traced) : TracedGraph(std::move(traced)) {}
};

namespace tracing {

/// Builds a graph for trace(). During its lifetime, the thread has the floating-point environment
/// of kernels.
class Tracer {
 public:
  explicit Tracer(const TraceName& name);
  /// For an executor: the graph has exactly this name, without "#2"; `arguments` replaces the names
  /// "arg0", "arg1" of the first arguments.
  Tracer(std::string graph, std::vector<std::string> arguments, const std::source_location& where);
  /// The next argument, as nodes.
  template <class Types>
  NodesOf<Types> argument(const Types& types) {
    std::vector<ArrayType> leaves;
    TreeDef def = trees::gather(types, leaves);
    return unflatten<NodesOf<Types>>(def, parameters(def, leaves));
  }
  /// The next argument, of structure `def`. `types` lists the leaf types of the whole call; the
  /// next entries are those of this argument.
  template <class Nodes>
  Nodes argument(const TreeDef& def, std::span<const ArrayType> types) {
    return unflatten<Nodes>(def, parameters(def, types.subspan(used_, def.num_leaves())));
  }
  /// Calls the function and finishes the graph with its results.
  template <class Function, class... Nodes>
  auto trace(Function& function, Nodes&... nodes) {
    using Results = typename Returned<Function, Nodes...>::Type;
    std::vector<Node> leaves;
    TreeDef def;
    try {
      const Results results = call(function, nodes...);
      def = trees::gather(results, leaves);
    } catch (...) {
      fail();
    }
    return Traced<Results>(finish(std::move(def), std::move(leaves)));
  }

 private:
  template <class Function, class... Nodes>
  decltype(auto) call(Function& function, Nodes&... nodes) {
    if constexpr (TakesNodes<Function, Nodes...>)
      return std::invoke(function, std::move(nodes)...);
    else
      return std::invoke(function, std::as_const(graph_), std::move(nodes)...);
  }
  std::vector<Node> parameters(const TreeDef& def, std::span<const ArrayType> types);
  /// Rethrows the exception being handled as an Error that names the function and its last node.
  [[noreturn]] void fail() const;
  TracedGraph finish(TreeDef results, std::vector<Node> leaves);

  std::shared_ptr<const void> floating_;  // the thread's floating-point environment
  std::source_location where_;
  Graph graph_;
  std::vector<std::string> names_;  // of the first arguments
  std::vector<TreeDef> arguments_;
  std::size_t used_ = 0;  // leaves used so far
};

/// See trace() below.
template <class Function, class... Types>
auto build(const TraceName& name, Function& function, const Types&... types) {
  Tracer tracer(name);
  std::tuple<NodesOf<Types>...> nodes{tracer.argument(types)...};  // in this order
  return std::apply([&](auto&... each) { return tracer.trace(function, each...); }, nodes);
}

}  // namespace tracing

/// Calls the function once, with nodes of these types, and returns its graph; see Traceable.
/// Returns a Traced<result type of the function>.
///
/// The graph has the function's name, "mlp"; later traces of the same name in this process are
/// "mlp#2", "mlp#3", and so on, even if a trace failed. Without a name, the graph is named "graph",
/// and errors lack the location of the trace. Parameters are named "arg0", "arg1", and inside trees
/// "arg0/layers/3/weight". Names are no part of the graph's hash.
///
/// The function runs with the floating-point environment of kernels, whatever environment the
/// calling thread has: numbers are rounded to nearest, nothing is flushed to zero, and nothing
/// traps. The graph is therefore the same on any thread. The thread's own environment is restored
/// before the call returns.
///
/// An exception of the function is rethrown as an Error that names the function and the last node
/// that the function made, with the exception as the cause. The code is the code of the thrown
/// Error, exhausted for std::bad_alloc, and invalid_argument for other exceptions;
/// status().exception() is the exception itself. Throws invalid_argument, naming the path, if the
/// results contain no node, or a node of no graph or of another graph; invalid_argument for types
/// that no array can have; failed_precondition if the function finished the graph.
template <class Function, class... Types>
auto trace(const TraceName& name, Function&& function, const Types&... types) {
  if constexpr (tracing::checked<std::remove_reference_t<Function>, Types...>())
    return tracing::build(name, function, types...);
}
template <class Function, class... Types>
  requires(!std::convertible_to<Function, TraceName>)
auto trace(Function&& function, const Types&... types) {
  if constexpr (tracing::checked<std::remove_reference_t<Function>, Types...>())
    return tracing::build(TraceName(), function, types...);
}

}  // namespace heddle
#pragma GCC visibility pop
