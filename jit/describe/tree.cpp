// See heddle/tree_def.hpp.
#include <algorithm>
#include <functional>
#include <utility>

#include "heddle/status.hpp"
#include "heddle/tree_def.hpp"
#include "jit/describe/tree_key.hpp"

namespace heddle {
namespace {

using jit::is_name_byte;
using jit::quoted_key;
using jit::tree_depth_max;

[[noreturn]] void refuse_tree(std::string message) {
  throw Error(ErrorCode::invalid_argument, std::move(message));
}

bool is_field_name(std::string_view name) {
  return !name.empty() && (name[0] < '0' || name[0] > '9') &&
         std::ranges::all_of(name, is_name_byte);
}
/// True for keys that paths show without quotes.
bool is_plain_key(std::string_view key) {
  return !key.empty() && key[0] != '.' && std::ranges::all_of(key, [](char c) {
    return c != '$' && (is_name_byte(c) || c == '-' || c == '.');
  });
}

bool has_names(TreeKind kind) { return kind == TreeKind::fields || kind == TreeKind::map; }

void check_names(TreeKind kind, const std::vector<std::string>& names) {
  if (kind == TreeKind::map) {
    const auto at = std::ranges::adjacent_find(names, std::ranges::greater_equal());
    if (at == names.end()) return;
    refuse_tree("a map of a tree has its key " + quoted_key(at[1]) + " behind " + quoted_key(*at) +
                " (expected keys in ascending order)");
  }
  for (const std::string& name : names) {
    if (!is_field_name(name)) {
      refuse_tree("a struct of a tree has a field " + quoted_key(name) +
                  " (expected a name as C++ has it)");
    }
  }
  std::vector<std::string_view> sorted(names.begin(), names.end());
  std::ranges::sort(sorted);
  const auto twice = std::ranges::adjacent_find(sorted);
  if (twice != sorted.end()) {
    refuse_tree("a struct of a tree has its field " + std::string(*twice) + " twice");
  }
}

std::string counted(std::size_t count, const char* what) {
  return std::to_string(count) + ' ' + what + (count == 1 ? "" : "s");
}
std::string described(TreeKind kind, std::optional<std::size_t> size) {
  const auto of = [&](const char* what, const char* parts) {
    return what + (size ? " of " + counted(*size, parts) : std::string());
  };
  switch (kind) {
    case TreeKind::leaf:
      return "a leaf";
    case TreeKind::list:
      return of("a list", "element");
    case TreeKind::tuple:
      return of("a tuple", "element");
    case TreeKind::fields:
      return of("a struct", "field");
    case TreeKind::map:
      return of("a map", "key");
    case TreeKind::none:
      return "an empty optional";
    case TreeKind::some:
      return size ? "an optional with a content" : "an optional";
  }
  return "unknown";
}

/// The difference between `found` and the expected tree at the root; empty where they agree.
std::string mismatch(const TreeDef& found, const trees::Expected& expected) {
  const bool any_optional = expected.kind == TreeKind::some && !expected.size;
  if (found.kind() != expected.kind && !(any_optional && found.kind() == TreeKind::none)) {
    return described(found.kind(), found.size()) + ", expected " +
           described(expected.kind, expected.size);
  }
  if (!expected.size) return {};
  if (!has_names(expected.kind)) {
    if (found.size() == *expected.size) return {};
    return counted(found.size(), "element") + ", expected " + std::to_string(*expected.size);
  }
  std::size_t k = 0;
  const auto& names = expected.names;
  while (k < found.size() && k < names.size() && found.name(k) == names[k]) ++k;
  if (k == found.size() && k == names.size()) return {};
  const bool is_map = expected.kind == TreeKind::map;
  const std::string what = is_map ? "key " : "field ";
  const auto shown = [is_map](std::string_view name) {
    return is_map ? quoted_key(name) : std::string(name);
  };
  if (k == names.size() || (is_map && k < found.size() && found.name(k) < names[k])) {
    return what + shown(found.name(k)) + " is not expected";
  }
  if (k == found.size() || is_map) return what + shown(names[k]) + " is missing";
  return what + shown(found.name(k)) + ", expected " + shown(names[k]);
}

std::string at_path(const std::string& path) { return path.empty() ? "at the root" : "at " + path; }

}  // namespace

struct TreeDef::Node {
  TreeKind kind;
  std::vector<TreeDef> children;
  std::vector<std::string> names;
  std::vector<std::size_t> ends{};  // the number of leaves up to and including each child
  std::size_t hash = 0;
  unsigned depth = 1;
};

TreeDef::TreeDef(TreeKind kind, std::vector<TreeDef> children, std::vector<std::string> names) {
  const std::size_t parts_max = kind == TreeKind::leaf || kind == TreeKind::none ? 0
                                : kind == TreeKind::some                         ? 1
                                                                                 : children.size();
  if (kind > TreeKind::some || children.size() > parts_max ||
      (kind == TreeKind::some && children.empty()) ||
      names.size() != (has_names(kind) ? children.size() : 0)) {
    refuse_tree(described(kind, {}) + " of a tree has " + counted(children.size(), "part") +
                " and " + counted(names.size(), "name"));
  }
  if (kind == TreeKind::leaf) return;
  check_names(kind, names);
  Node node{kind, std::move(children), std::move(names)};
  // FNV-1a over the structure: cheap, and equal trees hash equal in every process.
  std::uint64_t hash = 0xcbf29ce484222325u;
  const auto mix = [&hash](std::uint64_t value) { hash = (hash ^ value) * 0x100000001b3u; };
  mix(static_cast<std::uint64_t>(kind));
  std::size_t leaves = 0;
  for (std::size_t k = 0; k < node.children.size(); ++k) {
    TreeDef& child = node.children[k];
    // Adjacent equal children, such as layers, share one structure.
    if (k > 0 && child == node.children[k - 1]) child = node.children[k - 1];
    if (child.state_ != nullptr) node.depth = std::max(node.depth, child.state_->depth + 1);
    node.ends.push_back(leaves += child.num_leaves());
    mix(child.hash());
  }
  for (const std::string& name : node.names) {
    for (const char c : name) mix(static_cast<unsigned char>(c));
    mix(256);
  }
  if (node.depth > tree_depth_max) {
    refuse_tree("a tree nests deeper than " + std::to_string(tree_depth_max));
  }
  node.hash = static_cast<std::size_t>(hash);
  state_ = std::make_shared<const Node>(std::move(node));
}

TreeKind TreeDef::kind() const noexcept { return state_ ? state_->kind : TreeKind::leaf; }
std::size_t TreeDef::size() const noexcept { return state_ ? state_->children.size() : 0; }
std::size_t TreeDef::num_leaves() const noexcept {
  if (!state_) return 1;
  return state_->ends.empty() ? 0 : state_->ends.back();
}
std::size_t TreeDef::hash() const noexcept { return state_ ? state_->hash : 42; }

const TreeDef& TreeDef::child(std::size_t k) const {
  if (k >= size()) {
    refuse_tree("part " + std::to_string(k) + " of a tree that is " + described(kind(), size()));
  }
  return state_->children[k];
}
std::string_view TreeDef::name(std::size_t k) const {
  static_cast<void>(child(k));
  return state_->names.empty() ? std::string_view() : state_->names[k];
}

bool TreeDef::same(const TreeDef& a, const TreeDef& b) noexcept {
  if (a.state_ == b.state_) return true;
  return a.state_ && b.state_ && a.state_->hash == b.state_->hash &&
         a.state_->kind == b.state_->kind && a.state_->names == b.state_->names &&
         a.state_->children == b.state_->children;
}

std::string TreeDef::path(std::size_t leaf) const {
  if (leaf >= num_leaves()) {
    refuse_tree("leaf " + std::to_string(leaf) + " of a tree whose leaves are " +
                std::to_string(num_leaves()));
  }
  std::string path;
  const TreeDef* at = this;
  while (at->state_ != nullptr) {
    const auto& ends = at->state_->ends;
    const auto part = static_cast<std::size_t>(std::ranges::upper_bound(ends, leaf) - ends.begin());
    trees::append(path, *at, part);
    if (part > 0) leaf -= ends[part - 1];
    at = &at->state_->children[part];
  }
  return path;
}

std::string TreeDifference::to_string() const { return at_path(path) + ": " + text; }

std::optional<TreeDifference> first_difference(const TreeDef& found, const TreeDef& expected) {
  if (found == expected) return std::nullopt;
  TreeDifference difference;
  const TreeDef *a = &found, *b = &expected;
  while (true) {
    std::vector<std::string_view> names;
    if (has_names(b->kind())) {
      for (std::size_t k = 0; k < b->size(); ++k) names.push_back(b->name(k));
    }
    difference.text = mismatch(*a, {b->kind(), b->size(), names});
    if (!difference.text.empty()) return difference;
    std::size_t k = 0;
    while (a->child(k) == b->child(k)) ++k;
    trees::append(difference.path, *a, k);
    a = &a->child(k);
    b = &b->child(k);
  }
}

void require_same(const TreeDef& found, const TreeDef& expected, std::string_view what) {
  const auto difference = first_difference(found, expected);
  if (difference) refuse_tree(std::string(what) + ": " + difference->to_string());
}

namespace trees {

void append(std::string& path, std::size_t element) {
  if (!path.empty()) path += '/';
  path += std::to_string(element);
}
void append(std::string& path, std::string_view key) {
  if (!path.empty()) path += '/';
  path += is_plain_key(key) ? std::string(key) : quoted_key(key);
}
void append(std::string& path, const TreeDef& def, std::size_t part) {
  if (has_names(def.kind())) {
    append(path, def.name(part));
  } else if (def.kind() != TreeKind::some) {
    append(path, part);
  }
}

void require(const TreeDef& found, const Expected& expected, const std::string& path) {
  const std::string text = mismatch(found, expected);
  if (!text.empty()) refuse_tree("unflatten: " + at_path(path) + ": " + text);
}
void require_count(const TreeDef& def, std::size_t leaves) {
  if (leaves == def.num_leaves()) return;
  std::string text = "unflatten: " + std::to_string(leaves) + " leaves, expected " +
                     std::to_string(def.num_leaves());
  if (leaves < def.num_leaves()) text += ": none " + at_path(def.path(leaves));
  refuse_tree(std::move(text));
}

}  // namespace trees
}  // namespace heddle
