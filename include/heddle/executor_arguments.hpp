// Arguments of executor calls, as executors process them: leaves, and the structure of trees.
// Values; any thread. For heddle/executor.hpp.
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "heddle/array.hpp"
#include "heddle/few.hpp"
#include "heddle/graph.hpp"
#include "heddle/host_array.hpp"
#include "heddle/tree.hpp"

#pragma GCC visibility push(default)
namespace heddle {

/// The result of donate().
template <class Tree>
class Donated {
 public:
  explicit Donated(const Tree& tree) : tree_(&tree) {}
  [[nodiscard]] const Tree& tree() const noexcept { return *tree_; }

 private:
  const Tree* tree_;
};

/// Marks an argument whose memory the call takes: results reuse the memory, or it is freed. The
/// arrays in the argument, an Array or a tree of Arrays, are dead from the call on, as are all
/// their copies. For use in the call expression itself: exec(donate(state), batch). With an
/// ArrayType or a tree of ArrayTypes: for compiling ahead for calls that donate,
/// exec.compile(donate(type)).
template <class Tree>
  requires(TreeOf<Tree, Array> || TreeOf<Tree, ArrayType>)
[[nodiscard]] Donated<Tree> donate(const Tree& tree) {
  return Donated<Tree>(tree);
}

namespace executors {

/// A leaf of a call's arguments. The caller owns all pointees.
struct Leaf {
  const Array* array = nullptr;     ///< an array, or null
  const HostArray* host = nullptr;  ///< a host array, or null
  const ArrayType* type = nullptr;  ///< a type without values, or null
  const void* data = nullptr;       ///< host elements, or null
  DType dtype = DType::f32;         ///< type of the elements at `data`
  std::int64_t count = -1;          ///< number of elements at `data`; -1: a scalar
  bool donated = false;
  bool is_number = false;       ///< a double, which takes the width of the floats beside it
  alignas(8) std::byte own[8];  // NOLINT: the converted number, if its width changed
};

/// The tree of nodes that an argument of this type becomes in a trace.
template <class T>
struct Argument {
  static constexpr bool is = false;
};
template <class T, class Of>
struct TreeArgument {
  static constexpr bool is = true, has_values = true;
  using Nodes = typename trees::MapLeaves<Of, Node>::template Of<T>::Type;
  static TreeDef def(const T& tree) {
    std::vector<Of> leaves;
    return trees::gather(tree, leaves);
  }
};
struct LeafArgument {
  static constexpr bool is = true, has_values = true;
  using Nodes = Node;
  static TreeDef def(const auto&) { return {}; }
};
template <class T>
  requires TreeOf<T, Array>
struct Argument<T> : TreeArgument<T, Array> {};
template <class T>
  requires(TreeOf<T, HostArray> && !TreeOf<T, Array>)
struct Argument<T> : TreeArgument<T, HostArray> {};
template <class T>
  requires(TreeOf<T, ArrayType> && !TreeOf<T, Array>)
struct Argument<T> : TreeArgument<T, ArrayType> {
  static constexpr bool has_values = false;
};
template <class T>
struct Argument<Donated<T>> : Argument<T> {
  static TreeDef def(const Donated<T>& donated) { return Argument<T>::def(donated.tree()); }
};
template <Element T>
struct Argument<T> : LeafArgument {};
template <Element T, class A>
struct Argument<std::vector<T, A>> : LeafArgument {};
template <Element T, std::size_t n>
struct Argument<std::array<T, n>> : LeafArgument {};
template <class T, std::size_t extent>
  requires Element<std::remove_const_t<T>>
struct Argument<std::span<T, extent>> : LeafArgument {};

/// A variable whose address identifies the type.
template <class T>
inline constexpr char type_tag = 0;

/// The leaves of a call's arguments, and a text of their structure: two calls have equal texts only
/// if their structures are equal.
class Arguments {
 public:
  /// Takes the arguments; may be called once. Throws invalid_argument for a double that is too
  /// large for the floats beside it.
  template <class... Args>
  void take(const Args&... args) {
    (add(args), ...);
    if ((std::same_as<Args, double> || ...)) fit_numbers();
  }

  [[nodiscard]] std::span<const Leaf> leaves() const noexcept {
    return {leaves_.begin(), leaves_.size()};
  }
  [[nodiscard]] std::string_view structure() const noexcept {
    return {structure_.begin(), structure_.size()};
  }
  /// The number of the first leaf of each argument.
  [[nodiscard]] std::span<const std::size_t> firsts() const noexcept {
    return {firsts_.begin(), firsts_.size()};
  }

 private:
  void fit_numbers();
  template <class Tree>
  void add(const Tree& tree, bool donated = false) {
    begin<typename Argument<Tree>::Nodes>();
    if constexpr (TreeOf<Tree, Array>) {
      walk<Array>(tree, [&](const Array& leaf) {
        Leaf& added = leaves_.emplace_back();
        added.array = &leaf;
        added.donated = donated;
      });
    } else if constexpr (TreeOf<Tree, HostArray>) {
      walk<HostArray>(tree, [&](const HostArray& leaf) { leaves_.emplace_back().host = &leaf; });
    } else if constexpr (TreeOf<Tree, ArrayType>) {
      walk<ArrayType>(tree, [&](const ArrayType& leaf) {
        Leaf& added = leaves_.emplace_back();
        added.type = &leaf;
        added.donated = donated;
      });
    } else if constexpr (Element<Tree>) {
      put('*');
      Leaf& added = leaves_.emplace_back();
      added.data = &tree;
      added.dtype = dtype_of_v<Tree>;
      added.is_number = std::same_as<Tree, double>;
    } else {  // a vector or a span of elements
      put('*');
      using T = typename Tree::value_type;
      const void* data = nullptr;
      if constexpr (std::same_as<Tree, std::vector<bool>>) {
        bools_.emplace_back(tree.begin(), tree.end());
        data = bools_.back().data();
      } else {
        data = std::data(tree);
      }
      Leaf& added = leaves_.emplace_back();
      added.data = data;
      added.dtype = dtype_of_v<T>;
      added.count = static_cast<std::int64_t>(std::size(tree));
    }
  }
  template <class Tree>
  void add(const Donated<Tree>& donated) {
    add(donated.tree(), true);
  }
  /// Appends the type: a function may distinguish types with the same leaves. A single leaf takes
  /// one byte, for short keys.
  template <class Nodes>
  void begin() {
    firsts_.push_back(leaves_.size());
    if constexpr (!std::same_as<Nodes, Node>) {
      const char* const tag = &type_tag<Nodes>;
      char bytes[sizeof tag];
      std::memcpy(bytes, &tag, sizeof tag);
      put('t');
      structure_.append(bytes, sizeof bytes);
    }
  }
  void put(char c) { structure_.push_back(c); }
  template <class Of, class Tree>
  void walk(const Tree& tree, const auto& leaf) {
    if constexpr (std::same_as<Tree, Of>) {
      put('*');
      leaf(tree);
    } else {
      put(static_cast<char>('0' + static_cast<int>(trees::TreeAccess<Tree>::expected.kind)));
      trees::TreeAccess<Tree>::each(tree, [&]<class Name>(const Name& name, const auto& part) {
        if constexpr (std::same_as<Name, std::string_view>) {
          for (std::size_t rest = name.size();; rest >>= 7U) {
            put(static_cast<char>(rest & 127U));
            if (rest < 128U) break;
            structure_[structure_.size() - 1] = static_cast<char>(rest | 128U);
          }
          for (const char c : name) put(c);
        }
        walk<Of>(part, leaf);
      });
      put(')');
    }
  }

  Few<Leaf, 16> leaves_;
  Few<char, 160> structure_;
  Few<std::size_t, 16> firsts_;
  std::vector<std::vector<std::uint8_t>> bools_;
};

template <class T>
concept Given = Argument<std::remove_cvref_t<T>>::is;
/// Checks that the arguments of a call have values.
template <class... Args>
constexpr bool have_values() {
  static_assert((Given<Args> && ...),
                "heddle: an executor is called with Arrays, HostArrays, trees of either, "
                "donate(...) of Arrays, numbers such as 1, 0.5F and std::int64_t, and vectors, "
                "arrays or spans of numbers.");
  if constexpr ((Given<Args> && ...)) {
    constexpr bool values = (Argument<std::remove_cvref_t<Args>>::has_values && ...);
    static_assert(values, "heddle: types have no values: compile() takes them, a call does not.");
    return values;
  }
  return false;
}

/// A tree whose type determines the number of leaves.
template <class T>
struct FixedTree {
  static constexpr bool is = std::same_as<T, Node>;
  static constexpr std::size_t num_leaves = 1;
};
template <class... Part>
struct FixedParts {
  static constexpr bool is = (FixedTree<Part>::is && ...);
  static constexpr std::size_t num_leaves = (std::size_t{0} + ... + FixedTree<Part>::num_leaves);
};
template <class... T>
struct FixedTree<std::tuple<T...>> : FixedParts<T...> {};
template <class A, class B>
struct FixedTree<std::pair<A, B>> : FixedParts<A, B> {};
template <class T, std::size_t n>
struct FixedTree<std::array<T, n>> {
  static constexpr bool is = FixedTree<T>::is;
  static constexpr std::size_t num_leaves = n * FixedTree<T>::num_leaves;
};
template <class... Part>
FixedParts<Part...> fixed_parts(trees::Types<Part...>);
template <trees::Struct T>
struct FixedTree<T> : decltype(fixed_parts(typename trees::TreeAccess<T>::Parts())){};

/// Builds trees from a list of leaves.
struct FixedLeaves {
  template <class T>
  T next() {
    if constexpr (std::same_as<T, Array>) {
      return leaves[used++];
    } else {
      return trees::TreeAccess<T>::make(*this);
    }
  }
  std::span<const Array> leaves;
  std::size_t used = 0;
};

}  // namespace executors
}  // namespace heddle
#pragma GCC visibility pop
