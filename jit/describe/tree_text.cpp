// The text of a TreeDef (heddle/tree_def.hpp): printing and parsing.
#include <algorithm>
#include <string>
#include <utility>

#include "heddle/status.hpp"
#include "heddle/tree_def.hpp"
#include "jit/describe/tree_key.hpp"

namespace heddle {
namespace {

void print_tree(const TreeDef& def, std::string& text) {
  const auto parts = [&](const char* open, const char* close) {
    text += open;
    for (std::size_t k = 0; k < def.size(); ++k) {
      if (k > 0) text += ", ";
      if (def.kind() == TreeKind::fields) text += std::string(def.name(k)) + ": ";
      if (def.kind() == TreeKind::map) text += jit::quoted_key(def.name(k)) + ": ";
      print_tree(def.child(k), text);
    }
    text += close;
  };
  switch (def.kind()) {
    case TreeKind::leaf:
      text += '*';
      break;
    case TreeKind::list:
      parts("[", "]");
      break;
    case TreeKind::tuple:
      parts("(", ")");
      break;
    case TreeKind::fields:
      parts("{", "}");
      break;
    case TreeKind::map:
      parts("{", def.size() == 0 ? ":}" : "}");
      break;
    case TreeKind::none:
      text += "none";
      break;
    case TreeKind::some:
      parts("some ", "");
      break;
  }
}

class TreeParser {
 public:
  explicit TreeParser(std::string_view text) : text_(text) {}

  TreeDef whole() {
    TreeDef def = tree(0);
    if (skip(); at_ < text_.size()) fail("the end of the text");
    return def;
  }

 private:
  [[noreturn]] void fail(const std::string& expected) {
    skip();
    std::string found(text_.substr(at_, 20));
    std::ranges::replace_if(found, [](char c) { return c < 0x20 || c > 0x7e; }, '?');
    throw Error(ErrorCode::invalid_argument,
                "tree text at byte " + std::to_string(at_) + ": expected " + expected + ", found " +
                    (found.empty() ? "the end of the text" : "'" + found + "'"));
  }
  void skip() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) ++at_;
  }
  bool accept(char token) {
    skip();
    if (at_ == text_.size() || text_[at_] != token) return false;
    ++at_;
    return true;
  }
  void expect(char token) {
    if (!accept(token)) fail(std::string("'") + token + "'");
  }

  TreeDef tree(unsigned depth) {
    if (depth > jit::tree_depth_max) {
      fail("no tree that nests deeper than " + std::to_string(jit::tree_depth_max));
    }
    if (accept('*')) return {};
    if (accept('[')) return parts(TreeKind::list, ']', depth);
    if (accept('(')) return parts(TreeKind::tuple, ')', depth);
    if (accept('{')) return named(depth);
    const std::size_t before = at_;
    const std::string_view word = name();
    if (word == "none") return TreeDef(TreeKind::none);
    if (word == "some") return TreeDef(TreeKind::some, {tree(depth + 1)});
    at_ = before;
    fail("a tree: *, [...], (...), {...}, none or some");
  }
  TreeDef parts(TreeKind kind, char close, unsigned depth) {
    std::vector<TreeDef> children;
    while (!accept(close)) {
      if (!children.empty()) expect(',');
      children.push_back(tree(depth + 1));
    }
    return TreeDef(kind, std::move(children));
  }
  TreeDef named(unsigned depth) {
    if (accept(':')) {
      expect('}');
      return TreeDef(TreeKind::map);
    }
    skip();
    const bool is_map = text_.substr(at_).starts_with('"');
    std::vector<TreeDef> children;
    std::vector<std::string> names;
    while (!accept('}')) {
      if (!children.empty()) expect(',');
      names.push_back(is_map ? key() : std::string(name()));
      expect(':');
      children.push_back(tree(depth + 1));
    }
    return TreeDef(is_map ? TreeKind::map : TreeKind::fields, std::move(children),
                   std::move(names));
  }

  std::string_view name() {
    skip();
    const std::size_t begin = at_;
    while (at_ < text_.size() && jit::is_name_byte(text_[at_])) ++at_;
    return text_.substr(begin, at_ - begin);
  }
  std::string key() {
    expect('"');
    std::string key;
    while (at_ < text_.size() && text_[at_] != '"') {
      if (text_[at_] == '\\') {
        ++at_;
        key += escaped();
      } else {
        key += text_[at_++];
      }
    }
    if (at_ == text_.size()) fail("a quote that ends the key");
    ++at_;
    return key;
  }
  char escaped() {
    const std::string_view rest = text_.substr(at_);
    if (rest.starts_with('"') || rest.starts_with('\\')) return text_[at_++];
    if (rest.starts_with('x') && rest.size() > 2) {
      const std::size_t high = jit::hex_digits.find(rest[1]), low = jit::hex_digits.find(rest[2]);
      if (high < 16 && low < 16) {
        at_ += 3;
        return static_cast<char>(high * 16 + low);
      }
    }
    fail("\", \\ or x and two digits, 0 to f, behind a \\ in a key");
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

}  // namespace

std::string TreeDef::to_string() const {
  std::string text;
  print_tree(*this, text);
  return text;
}

TreeDef TreeDef::parse(std::string_view text) { return TreeParser(text).whole(); }

}  // namespace heddle
