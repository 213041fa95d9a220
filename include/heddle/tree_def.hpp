// TreeDef: the structure of a tree (heddle/tree.hpp) without its leaves, and the comparison of
// structures. Values; any thread.
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

/// The kind of a node of a tree.
enum class TreeKind : std::uint8_t {
  leaf,
  list,    ///< std::vector, std::array: elements
  tuple,   ///< std::pair, std::tuple: elements
  fields,  ///< a struct: named fields, in the order in which HEDDLE_TREE lists them
  map,     ///< std::map<std::string, T>: keys, in ascending order
  none,    ///< an empty std::optional
  some,    ///< a std::optional with a value
};

/// The structure of a tree without its leaves: a value, hashed in constant time, copied like a
/// shared pointer. The structure does not depend on C++ types: a vector and an array of three
/// leaves have the same structure, as do two structs with the same field names. A move copies. At
/// most 1000 levels.
///
/// Text: `*` for a leaf, `[*, *]` for a list, `(*, *)` for a tuple, `{weight: *, bias: *}` for a
/// struct, `{"a": *, "b": *}` for a map, whose keys are always quoted, `{}` and `{:}` for an empty
/// struct and an empty map, `none` and `some *` for an optional.
///
/// Path: the steps to a leaf, outermost first, joined by '/': an element's number, a field's name,
/// or a key: "layers/3/weight". The content of an optional has the path of the optional; a tree
/// that is a leaf has the path "". A key that consists of letters, digits, '_', '-', '.' and bytes
/// above 127, and does not begin with '.', is written as it is; any other key is quoted, and only
/// keys have quotes: {"a/b": *} has the leaf "\"a/b\"". In quotes, '"' and '\' are preceded by '\',
/// and bytes below 32 and byte 127 are written as \x and two digits, \x0a. Every leaf of a tree
/// therefore has a unique path.
class TreeDef {
 public:
  TreeDef() = default;  ///< a leaf
  /// A tree of parts, with a name for each field or key. Throws invalid_argument for parts or names
  /// that the kind does not have, for field names that are not valid in C++ or not unique, for keys
  /// that are not in ascending order, and for too many levels.
  explicit TreeDef(TreeKind kind, std::vector<TreeDef> children = {},
                   std::vector<std::string> names = {});
  TreeDef(const TreeDef&) = default;
  TreeDef& operator=(const TreeDef&) = default;

  [[nodiscard]] TreeKind kind() const noexcept;
  /// The number of elements, fields, keys or contents; 0 for a leaf.
  [[nodiscard]] std::size_t size() const noexcept;
  [[nodiscard]] const TreeDef& child(std::size_t k) const;  ///< k < size(), else invalid_argument
  /// The field or key of child k; empty for other kinds.
  [[nodiscard]] std::string_view name(std::size_t k) const;
  [[nodiscard]] std::size_t num_leaves() const noexcept;
  /// The path of a leaf, numbered in the order of flatten(). Throws invalid_argument if there is no
  /// such leaf.
  [[nodiscard]] std::string path(std::size_t leaf) const;
  /// The text. Two structures have equal text only if they are equal.
  [[nodiscard]] std::string to_string() const;
  /// Parses a text; blanks between tokens are ignored. Throws invalid_argument with the position in
  /// the text, what was expected, and what was found.
  [[nodiscard]] static TreeDef parse(std::string_view text);
  [[nodiscard]] std::size_t hash() const noexcept;  ///< equal in every process
  friend bool operator==(const TreeDef& a, const TreeDef& b) noexcept { return same(a, b); }

 private:
  struct Node;
  static bool same(const TreeDef& a, const TreeDef& b) noexcept;

  std::shared_ptr<const Node> state_;  // null: a leaf
};

/// The first difference between two trees.
struct TreeDifference {
  std::string path{};  ///< path of the outermost part that differs
  std::string text{};  ///< "3 elements, expected 4"
  /// "at layers/2: 3 elements, expected 4".
  [[nodiscard]] std::string to_string() const;
};

/// The first difference, in the order of leaves; nullopt if the structures are equal.
[[nodiscard]] std::optional<TreeDifference> first_difference(const TreeDef& found,
                                                             const TreeDef& expected);
/// Throws invalid_argument if the structures differ: "`what`: at layers/2: 3 elements, expected 4".
void require_same(const TreeDef& found, const TreeDef& expected, std::string_view what);

namespace trees {

/// Appends an element's number, or a key, to a path.
void append(std::string& path, std::size_t element);
void append(std::string& path, std::string_view key);
void append(std::string& path, const TreeDef& def, std::size_t part);

/// The structure that a C++ type expects. Without a size: a list or map of any size, or an optional
/// with or without a value.
struct Expected {
  TreeKind kind = TreeKind::leaf;
  std::optional<std::size_t> size{};
  std::span<const std::string_view> names{};
};
/// Throws invalid_argument if `found`, located at `path`, does not match.
void require(const TreeDef& found, const Expected& expected, const std::string& path);
/// Throws invalid_argument if `def` has another number of leaves.
void require_count(const TreeDef& def, std::size_t leaves);

}  // namespace trees
}  // namespace heddle

template <>
struct std::hash<heddle::TreeDef> {
  std::size_t operator()(const heddle::TreeDef& def) const noexcept { return def.hash(); }
};
#pragma GCC visibility pop
