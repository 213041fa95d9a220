// TreeDef: the structure of a tree (heddle/tree.hpp) without its leaves, and where two of them
// differ. Values; callable from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "heddle/requires.hpp"

#pragma GCC visibility push(default)
namespace heddle {

/// What a tree is at one place.
enum class TreeKind : std::uint8_t {
  leaf,
  list,    ///< std::vector, std::array: elements
  tuple,   ///< std::pair, std::tuple: elements
  fields,  ///< a struct: named fields, in the order in which HEDDLE_TREE lists them
  map,     ///< std::map<std::string, T>: keys, in ascending order
  none,    ///< a std::optional that is empty
  some,    ///< a std::optional with a content
};

/// The structure of a tree without its leaves: a value, hashed in constant time, copied as a shared
/// pointer. It knows no types of C++: a vector and an array of three leaves have the same, as have
/// two structs whose fields have the same names. Moving one copies it. Nests 1000 deep at most.
///
/// The text is `*` for a leaf, `[*, *]` for a list, `(*, *)` for a tuple, `{weight: *, bias: *}`
/// for a struct, `{"a": *, "b": *}` for a map, whose keys are always quoted, `{}` and `{:}` for a
/// struct and a map without any, `none` and `some *` for an optional.
///
/// The path of a leaf is what leads to it, outermost first, with '/' between: an element's number,
/// a field's name, a key: "layers/3/weight". The content of an optional has the optional's path; a
/// tree that is a leaf has the path "". A key of letters, digits, '_', '-', '.' and bytes above 127
/// that does not begin with '.' is written as it is, any other in quotes, which no other part of a
/// path has: {"a/b": *} has the leaf "\"a/b\"". In quotes, '"' and '\' follow a '\', and bytes
/// below 32 and 127 are \x and two digits, \x0a. So no two leaves of a tree share a path.
class TreeDef {
 public:
  TreeDef() = default;  ///< a leaf
  /// Of parts, with a name for each field or key. Throws invalid_argument where there are parts or
  /// names that the kind does not have, fields whose names C++ would not take or that have the same
  /// name, keys that are not in ascending order, and when it nests too deep.
  explicit TreeDef(TreeKind kind, std::vector<TreeDef> children = {},
                   std::vector<std::string> names = {});
  TreeDef(const TreeDef&) = default;
  TreeDef& operator=(const TreeDef&) = default;

  [[nodiscard]] TreeKind kind() const noexcept;
  /// How many elements, fields, keys or contents there are; 0 for a leaf.
  [[nodiscard]] std::size_t size() const noexcept;
  [[nodiscard]] const TreeDef& child(std::size_t k) const;  ///< k < size(), else invalid_argument
  /// The field or key of child k; empty for other kinds.
  [[nodiscard]] std::string_view name(std::size_t k) const;
  [[nodiscard]] std::size_t num_leaves() const noexcept;
  /// The path of a leaf, in the order of flatten(). Throws invalid_argument where there is no such
  /// leaf.
  [[nodiscard]] std::string path(std::size_t leaf) const;
  /// The text: equal for equal ones, and for no others.
  [[nodiscard]] std::string to_string() const;
  /// The one with this text, in which blanks between tokens do not matter. Throws invalid_argument:
  /// where in the text, what was expected, what is there.
  [[nodiscard]] static TreeDef parse(std::string_view text);
  [[nodiscard]] std::size_t hash() const noexcept;  ///< equal in every process
  friend bool operator==(const TreeDef& a, const TreeDef& b) noexcept { return same(a, b); }

 private:
  struct Node;
  static bool same(const TreeDef& a, const TreeDef& b) noexcept;

  std::shared_ptr<const Node> state_;  // null: a leaf
};

/// Where two trees begin to differ, and how.
struct TreeDifference {
  std::string path{};  ///< of the outermost part that differs
  std::string text{};  ///< "3 elements, expected 4"
  /// "at layers/2: 3 elements, expected 4".
  [[nodiscard]] std::string to_string() const;
};

/// The first difference, in the order of leaves; nullopt for equal ones.
[[nodiscard]] std::optional<TreeDifference> first_difference(const TreeDef& found,
                                                             const TreeDef& expected);
/// Throws invalid_argument where they differ: "`what`: at layers/2: 3 elements, expected 4".
void require_same(const TreeDef& found, const TreeDef& expected, std::string_view what);

namespace trees {

/// Appends an element's number, or a key, to a path.
void append(std::string& path, std::size_t element);
void append(std::string& path, std::string_view key);
void append(std::string& path, const TreeDef& def, std::size_t part);

/// What a type of C++ expects: without a size, one of any size, or an optional with or without.
struct Expected {
  TreeKind kind = TreeKind::leaf;
  std::optional<std::size_t> size{};
  std::span<const std::string_view> names{};
};
/// Throws invalid_argument where `found`, which is at `path`, is something else.
void require(const TreeDef& found, const Expected& expected, const std::string& path);
/// Throws invalid_argument where `def` has another number of leaves.
void require_count(const TreeDef& def, std::size_t leaves);

}  // namespace trees
}  // namespace heddle

template <>
struct std::hash<heddle::TreeDef> {
  std::size_t operator()(const heddle::TreeDef& def) const noexcept { return def.hash(); }
};
#pragma GCC visibility pop
