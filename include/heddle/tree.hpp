// Trees: arguments and results of functions of arrays. A tree is a leaf, or a std::vector,
// std::array, std::pair, std::tuple, std::optional or std::map<std::string, T> of trees, or a
// struct whose fields HEDDLE_TREE lists; trees nest. The leaves of a tree have one type, a
// parameter of the functions here: Node, Array, ArrayType. Trees are flattened in the order of
// their declaration: elements by position, fields in the order of HEDDLE_TREE, maps by ascending
// keys.
//
// Values and pure functions: callable from any thread.
#pragma once

#include <concepts>
#include <cstddef>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "heddle/tree_def.hpp"    // IWYU pragma: export
#include "heddle/tree_types.hpp"  // IWYU pragma: export

#pragma GCC visibility push(default)
namespace heddle {

namespace trees {

template <class Leaf, class T>
TreeDef gather(T& tree, std::vector<Leaf>& leaves) {
  using Tree = std::remove_const_t<T>;
  if constexpr (std::same_as<Tree, Leaf>) {
    leaves.push_back(tree);
    return {};
  } else if constexpr (TreeAccess<Tree>::is_tree) {
    std::vector<TreeDef> parts;
    std::vector<std::string> names;
    TreeAccess<Tree>::each(tree, [&]<class Name>(const Name& name, auto& part) {
      parts.push_back(gather(part, leaves));
      if constexpr (std::same_as<Name, std::string_view>) names.emplace_back(name);
    });
    TreeKind kind = TreeAccess<Tree>::expected.kind;
    if (kind == TreeKind::some && parts.empty()) kind = TreeKind::none;
    return TreeDef(kind, std::move(parts), std::move(names));
  }
}

template <class Leaf, class T>
void walk(T& tree, std::string& path, const auto& visit) {
  using Tree = std::remove_const_t<T>;
  if constexpr (std::same_as<Tree, Leaf>) {
    visit(std::as_const(path), tree);
  } else if constexpr (TreeAccess<Tree>::is_tree) {
    TreeAccess<Tree>::each(tree, [&]<class Name>(const Name& name, auto& part) {
      const std::size_t before = path.size();
      if constexpr (!std::same_as<Name, std::nullptr_t>) append(path, name);
      walk<Leaf>(part, path, visit);
      path.resize(before);
    });
  }
}

/// Builds a tree from the remaining `leaves`.
template <class Leaf>
struct Rebuild {
  /// The parts of one tree, in order.
  struct Parts {
    [[nodiscard]] std::size_t size() const { return def.size(); }
    [[nodiscard]] bool more() const { return at < def.size(); }
    [[nodiscard]] std::string_view name() const { return def.name(at); }
    template <class T>
    T next() {
      const std::size_t before = rebuild.path.size();
      append(rebuild.path, def, at);
      T made = rebuild.template make<T>(def.child(at++));
      rebuild.path.resize(before);
      return made;
    }
    Rebuild& rebuild;
    const TreeDef& def;
    std::size_t at = 0;
  };
  template <class T>
  T make(const TreeDef& def) {
    if constexpr (std::same_as<T, Leaf>) {
      require(def, Expected(), path);
      return std::move(leaves[used++]);
    } else if constexpr (TreeAccess<T>::is_tree) {
      require(def, TreeAccess<T>::expected, path);
      Parts parts{*this, def};
      return TreeAccess<T>::make(parts);
    }
  }
  std::vector<Leaf> leaves;
  std::size_t used = 0;
  std::string path{};
};

}  // namespace trees

template <class Leaf>
struct Flattened {
  TreeDef def;
  std::vector<Leaf> leaves;
};
/// The structure of a tree, and copies of its leaves: auto [def, leaves] = flatten<Node>(tree).
template <class Leaf, class T>
[[nodiscard]] Flattened<Leaf> flatten(const T& tree) {
  static_assert(trees::Checked<T, Leaf>::value);
  Flattened<Leaf> flat;
  flat.def = trees::gather(tree, flat.leaves);
  return flat;
}

/// Rebuilds a tree of type T from the result of flatten(): `def` determines the size of vectors,
/// whether optionals have a value, and the keys of maps. Fields that HEDDLE_TREE does not list have
/// their value in T{}. Throws invalid_argument, naming the first path that differs, if `def` is not
/// a structure of T or has another number of leaves.
template <class T, class Leaf>
[[nodiscard]] T unflatten(const TreeDef& def, std::vector<Leaf> leaves) {
  static_assert(trees::Checked<T, Leaf>::value);
  trees::require_count(def, leaves.size());
  trees::Rebuild<Leaf> rebuild{std::move(leaves)};
  return rebuild.template make<T>(def);
}

/// Calls visit(path, leaf) for each leaf in order, with a const std::string& and the leaf itself: a
/// Leaf&, or a const Leaf& if the tree is const.
template <class Leaf, class T, class Visit>
void visit_leaves(T& tree, const Visit& visit) {
  static_assert(trees::Checked<std::remove_const_t<T>, Leaf>::value);
  std::string path;
  trees::walk<Leaf>(tree, path, visit);
}

/// A tree of the same structure, with fn(leaf) for each leaf, in order. `fn` may return a different
/// type if the tree supports the type: containers, and structs that are a template of their leaf
/// type, such as Dense<T>, and may contain other struct templates of that type. Fields that
/// HEDDLE_TREE does not list are copied if the type stays the same, otherwise they are as in
/// unflatten().
template <class Leaf, class T, class Function>
[[nodiscard]] auto tree_map(const T& tree, const Function& fn) {
  using To = std::remove_cvref_t<std::invoke_result_t<const Function&, const Leaf&>>;
  if constexpr (std::same_as<To, Leaf>) {
    T made = tree;
    visit_leaves<Leaf>(made,
                       [&](const std::string&, Leaf& leaf) { leaf = fn(std::as_const(leaf)); });
    return made;
  } else {
    using Made = typename trees::MapLeaves<Leaf, To>::template Of<T>::Type;
    static_assert(
        TreeOf<Made, To>,
        "heddle: a struct has leaves of one type, and cannot have those that the function "
        "returns. Make it a template: template <class T> struct Dense { T weight; };");
    const auto [def, leaves] = flatten<Leaf>(tree);
    std::vector<To> mapped;
    mapped.reserve(leaves.size());
    for (const Leaf& leaf : leaves) mapped.push_back(fn(leaf));
    return unflatten<Made>(def, std::move(mapped));
  }
}

/// tree_map() of several trees of one structure: fn(leaf, leaf of the second tree, ...), as in
/// tree_map<Node>(weights, gradients, [](const Node& w, const Node& g) { return w - 0.1 * g; }).
/// The function is the last argument. Throws invalid_argument, naming the first path that differs,
/// if a structure is not that of the first tree.
template <class Leaf, class T, class U, class... Rest>
  requires(sizeof...(Rest) > 0)
[[nodiscard]] auto tree_map(const T& tree, const U& other, const Rest&... rest) {
  constexpr std::size_t others = sizeof...(Rest);
  const auto all = std::forward_as_tuple(other, rest...);
  const auto& fn = std::get<others>(all);
  const TreeDef def = flatten<Leaf>(tree).def;
  std::vector<std::vector<Leaf>> leaves;
  const auto add = [&](const auto& each) {
    auto flat = flatten<Leaf>(each);
    require_same(flat.def, def, "tree " + std::to_string(leaves.size() + 2) + " of tree_map()");
    leaves.push_back(std::move(flat.leaves));
  };
  std::size_t k = 0;
  return [&]<std::size_t... at>(std::index_sequence<at...>) {
    (add(std::get<at>(all)), ...);
    return tree_map<Leaf>(tree, [&](const Leaf& leaf) {
      const std::size_t place = k++;
      return fn(leaf, std::as_const(leaves[at][place])...);
    });
  }(std::make_index_sequence<others>());
}

}  // namespace heddle
#pragma GCC visibility pop
