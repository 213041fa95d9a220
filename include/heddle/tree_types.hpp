// The C++ types that are trees (heddle/tree.hpp): containers, and structs with HEDDLE_TREE.
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "heddle/tree_def.hpp"

#pragma GCC visibility push(default)
namespace heddle {
namespace trees {

/// A field of a struct, as listed by HEDDLE_TREE.
template <class Class, class Member>
struct Field {
  using Value = Member;
  std::string_view name;
  Member Class::* member;
};
template <class Class, class Member>
Field(const char*, Member Class::*) -> Field<Class, Member>;
template <class Struct, class... Field>
struct Fields {
  using Owner = Struct;
  constexpr explicit Fields(const Struct*, Field... each) : names{each.name...}, fields(each...) {}
  std::array<std::string_view, sizeof...(Field)> names;
  std::tuple<Field...> fields;
};
template <class T>
concept Struct = requires(const T* type) {
  // Excludes derived structs: the base's HEDDLE_TREE does not list their fields.
  requires std::same_as<typename decltype(heddle_tree_fields(type))::Owner, T>;
};

template <class... T>
struct Types {};
/// Access to the parts of a tree, by type. Primary template: leaves, and unsupported types.
template <class T>
struct TreeAccess {
  static constexpr bool is_tree = false;
};

template <class T, class A>
  requires(!std::same_as<T, bool>)  // its elements are not objects
struct TreeAccess<std::vector<T, A>> {
  static constexpr bool is_tree = true;
  static constexpr Expected expected{TreeKind::list};
  using Parts = Types<T>;
  template <class Map>
  using Mapped = std::vector<typename Map::template Of<T>::Type>;
  static void each(auto& tree, const auto& visit) {
    std::size_t k = 0;
    for (auto& element : tree) visit(k++, element);
  }
  static std::vector<T, A> make(auto& parts) {
    std::vector<T, A> made;
    made.reserve(parts.size());
    while (parts.more()) made.push_back(parts.template next<T>());
    return made;
  }
};

/// std::array, std::pair and std::tuple.
template <class T, TreeKind kind, class... Part>
struct TreeAccessTuple {
  static constexpr bool is_tree = true;
  static constexpr Expected expected{kind, sizeof...(Part)};
  using Parts = Types<Part...>;
  static void each(auto& tree, const auto& visit) {
    std::size_t k = 0;
    std::apply([&](auto&... part) { (visit(k++, part), ...); }, tree);
  }
  static T make(auto& parts) { return T{parts.template next<Part>()...}; }  // in this order
};
template <class... T>
struct TreeAccess<std::tuple<T...>> : TreeAccessTuple<std::tuple<T...>, TreeKind::tuple, T...> {
  template <class Map>
  using Mapped = std::tuple<typename Map::template Of<T>::Type...>;
};
template <class A, class B>
struct TreeAccess<std::pair<A, B>> : TreeAccessTuple<std::pair<A, B>, TreeKind::tuple, A, B> {
  template <class Map>
  using Mapped = std::pair<typename Map::template Of<A>::Type, typename Map::template Of<B>::Type>;
};
template <class T, std::size_t n>
struct TreeAccess<std::array<T, n>> {
  static constexpr bool is_tree = true;
  static constexpr Expected expected{TreeKind::list, n};
  using Parts = Types<T>;
  template <class Map>
  using Mapped = std::array<typename Map::template Of<T>::Type, n>;
  static void each(auto& tree, const auto& visit) {
    std::size_t k = 0;
    for (auto& part : tree) visit(k++, part);
  }
  static std::array<T, n> make(auto& parts) {
    return [&]<std::size_t... k>(std::index_sequence<k...>) {
      return std::array<T, n>{(static_cast<void>(k), parts.template next<T>())...};
    }(std::make_index_sequence<n>());
  }
};

template <class T>
struct TreeAccess<std::optional<T>> {
  static constexpr bool is_tree = true;
  static constexpr Expected expected{TreeKind::some};
  using Parts = Types<T>;
  template <class Map>
  using Mapped = std::optional<typename Map::template Of<T>::Type>;
  static void each(auto& tree, const auto& visit) {
    if (tree.has_value()) visit(nullptr, *tree);
  }
  static std::optional<T> make(auto& parts) {
    std::optional<T> made;
    if (parts.more()) made.emplace(parts.template next<T>());
    return made;
  }
};

template <class T, class Less, class A>
  requires(std::same_as<Less, std::less<std::string>> || std::same_as<Less, std::less<>>)
struct TreeAccess<std::map<std::string, T, Less, A>> {
  static constexpr bool is_tree = true;
  static constexpr Expected expected{TreeKind::map};
  using Parts = Types<T>;
  template <class Map>
  using Mapped = std::map<std::string, typename Map::template Of<T>::Type, Less>;
  static void each(auto& tree, const auto& visit) {
    for (auto& [key, value] : tree) visit(std::string_view(key), value);
  }
  static std::map<std::string, T, Less, A> make(auto& parts) {
    std::map<std::string, T, Less, A> made;
    while (parts.more()) {
      std::string key(parts.name());
      made.emplace_hint(made.end(), std::move(key), parts.template next<T>());
    }
    return made;
  }
};

/// The struct type with another leaf type: unchanged, or the same template with other arguments.
template <class T, class Map>
struct MappedStruct {
  using Type = T;
};
template <template <class...> class Template, class... T, class Map>
struct MappedStruct<Template<T...>, Map> {
  using Type = Template<typename Map::template Of<T>::Type...>;
};
/// Storage for a struct that is never constructed: the addresses of its fields tell their order.
template <class T>
union Room {
  constexpr Room() : nothing() {}
  constexpr ~Room() {}
  char nothing;
  T value;
};
template <class T>
inline constexpr Room<T> room{};
/// Converts to a field of exactly one type, or of any type.
template <class Field>
struct Exactly {
  template <std::same_as<Field> T>
  operator T() const;  // NOLINT
};
struct Anything {
  template <class T>
  operator T() const;  // NOLINT
};

template <Struct T>
struct TreeAccess<T> {
  static constexpr auto all = heddle_tree_fields(static_cast<const T*>(nullptr));
  static constexpr bool is_tree = true;
  static constexpr Expected expected{TreeKind::fields, all.names.size(), all.names};
  template <class... F>
  static Types<typename F::Value...> values(const std::tuple<F...>&);
  using Parts = decltype(values(all.fields));
  template <class Map>
  using Mapped = typename MappedStruct<T, Map>::Type;
  static void each(auto& tree, const auto& visit) {
    const auto one = [&](const auto& field) { visit(field.name, tree.*field.member); };
    std::apply([&](const auto&... field) { (one(field), ...); }, all.fields);
  }
  static T make(auto& parts) { return make(parts, Parts()); }
  template <class... Value>
  static T make(auto& parts, Types<Value...>) {
    if constexpr (std::default_initializable<T>) {
      T made{};
      std::apply(
          [&](auto&... field) { ((made.*field.member = parts.template next<Value>()), ...); },
          all.fields);
      return made;
    } else {
      static_assert(lists_all<Value...>(),
                    "heddle: a struct that is no aggregate, or whose HEDDLE_TREE does not list all "
                    "fields in their order, needs a default constructor to be made from leaves.");
      return T{parts.template next<Value>()...};
    }
  }
  template <class... Value>
  static constexpr bool lists_all() {
    if constexpr (
        !std::is_aggregate_v<T> || !requires { T{Exactly<Value>()...}; } ||
        requires { T{Exactly<Value>()..., Anything()}; }) {
      return false;
    } else {
      return std::apply(
          [](auto&... field) {
            std::size_t k = 0;
            return (follows_others(field, k++) && ...);
          },
          all.fields);
    }
  }
  /// True if field k lies behind the fields of the same type that are listed earlier.
  static constexpr bool follows_others(const auto& field, std::size_t k) {
    const auto follows = [&]<class Other>(const Other& other, std::size_t at) {
      if constexpr (std::same_as<decltype(field), const Other&>) {
        const auto& value = room<T>.value;
        return at >= k || std::addressof(value.*other.member) < std::addressof(value.*field.member);
      }
      return true;  // fields of different types are distinguished by type
    };
    return std::apply(
        [&](auto&... other) {
          std::size_t at = 0;
          return (follows(other, at++) && ...);
        },
        all.fields);
  }
};

template <class Found, class Leaf>
concept LeafOrTree = std::same_as<Found, Leaf> || TreeAccess<Found>::is_tree;

template <class T>
Types<T> operator+(Types<T>, const auto&);
template <class First>
First operator+(Types<>, const First&);
/// The first type inside T that is neither leaf nor tree, if any. Types may contain themselves.
template <class T, class Leaf, class... Outer>
constexpr auto misfits() {
  if constexpr (std::same_as<T, Leaf> || (std::same_as<T, Outer> || ...)) {
    return Types<>();
  } else if constexpr (!TreeAccess<T>::is_tree) {
    return Types<T>();
  } else {
    return []<class... Part>(Types<Part...>) {
      return decltype((Types<>() + ... + misfits<Part, Leaf, T, Outer...>()))();
    }(typename TreeAccess<T>::Parts());
  }
}
/// Instantiates for trees only; compilers print an offending type as the first argument.
template <class Found, class Leaf>
struct CheckedTree {
  static_assert(LeafOrTree<Found, Leaf>,
                "heddle: this type is no leaf and no tree. Trees are std::vector, std::array, "
                "std::pair, std::tuple, std::optional, std::map<std::string, T>, and structs that "
                "HEDDLE_TREE(Struct, field, ...) follows; leaves have one type.");
  static constexpr bool value = true;
};
template <class T, class Leaf>
constexpr auto checked(Types<>) -> CheckedTree<T, Leaf>;
template <class, class Leaf, class Found>
constexpr auto checked(Types<Found>) -> CheckedTree<Found, Leaf>;
template <class T, class Leaf>
using Checked = decltype(checked<T, Leaf>(misfits<T, Leaf>()));

/// Types of trees with leaves of another type.
template <class From, class To>
struct MapLeaves {
  template <class T>
  struct Of {
    using Type = T;
  };
  template <class T>
    requires std::same_as<T, From>
  struct Of<T> {
    using Type = To;
  };
  template <class T>
    requires(!std::same_as<T, From> && TreeAccess<T>::is_tree)
  struct Of<T> {
    using Type = typename TreeAccess<T>::template Mapped<MapLeaves>;
  };
};

}  // namespace trees

/// A leaf of type Leaf, or a tree whose leaves have type Leaf.
template <class T, class Leaf>
concept TreeOf =
    std::same_as<decltype(trees::misfits<std::remove_cvref_t<T>, Leaf>()), trees::Types<>>;

}  // namespace heddle
#pragma GCC visibility pop

/// Makes a struct a tree of the listed fields, in this order. Written at namespace scope, after the
/// struct and in its namespace:
///   HEDDLE_TREE(Dense, weight, bias)
///   template <class T> HEDDLE_TREE(Linear<T>, weight)  // one argument: the macro splits at commas
/// A struct without a default constructor, such as a struct of Nodes, must be an aggregate, and
/// every field must be listed in the order of declaration. At most 64 fields.
#define HEDDLE_TREE(type, ...)                                                       \
  [[maybe_unused]] constexpr auto heddle_tree_fields(const type* self) {             \
    return ::heddle::trees::Fields(                                                  \
        self __VA_OPT__(HEDDLE_TREE_SCAN_3(HEDDLE_TREE_FIELDS(type, __VA_ARGS__)))); \
  }
// Expands one field, then the rest of the fields in the next scan of the text.
#define HEDDLE_TREE_FIELDS(type, field, ...)                 \
  , ::heddle::trees::Field{#field, &type::field} __VA_OPT__( \
        HEDDLE_TREE_LATER HEDDLE_TREE_PARENTHESES(type, __VA_ARGS__))
#define HEDDLE_TREE_LATER() HEDDLE_TREE_FIELDS
#define HEDDLE_TREE_PARENTHESES ()
#define HEDDLE_TREE_SCAN_3(...) \
  HEDDLE_TREE_SCAN_2(HEDDLE_TREE_SCAN_2(HEDDLE_TREE_SCAN_2(HEDDLE_TREE_SCAN_2(__VA_ARGS__))))
#define HEDDLE_TREE_SCAN_2(...) \
  HEDDLE_TREE_SCAN_1(HEDDLE_TREE_SCAN_1(HEDDLE_TREE_SCAN_1(HEDDLE_TREE_SCAN_1(__VA_ARGS__))))
#define HEDDLE_TREE_SCAN_1(...) \
  HEDDLE_TREE_SCAN_0(HEDDLE_TREE_SCAN_0(HEDDLE_TREE_SCAN_0(HEDDLE_TREE_SCAN_0(__VA_ARGS__))))
#define HEDDLE_TREE_SCAN_0(...) __VA_ARGS__
