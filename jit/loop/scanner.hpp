// The tokens of the texts of loops and graphs, and where in one something is wrong. One thread.
#pragma once

#include <fmt/format.h>

#include <charconv>
#include <cstdint>
#include <string_view>
#include <system_error>

#include "heddle/types.hpp"
#include "jit/value/ops.hpp"

namespace heddle::jit {

class Scanner {
 public:
  /// `kind`: what errors call the text.
  Scanner(std::string_view text, std::string_view kind) : text_(text), kind_(kind) {}

  /// Throws invalid_argument: line, column, what was expected here, what is there.
  [[noreturn]] void fail(std::string_view expected);

  /// Whether the token is next; then it is passed. Blanks and comments before it are, either way.
  bool accept(std::string_view token);
  void expect(std::string_view token) {
    if (!accept(token)) fail(fmt::format("'{}'", token));
  }
  /// `what` is expected, should there be no such number.
  template <class T>
  T number(std::string_view what) {
    skip(true);
    T value{};
    const auto [end, error] =
        std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
    if (error != std::errc()) fail(what);
    at_ = static_cast<std::size_t>(end - text_.data());
    return value;
  }
  /// "t12" for prefix 't'.
  std::uint32_t id(char prefix, std::string_view what);
  bool sees_id(char prefix);
  /// That comes next; it is not passed.
  std::string_view word();
  DType dtype();
  /// After the opening bracket.
  Dims extents();
  /// "1:f32"
  Scalar scalar();

 protected:
  /// Blanks; with `comments`, comments too.
  void skip(bool comments);

  std::string_view text_;
  std::string_view kind_;
  std::size_t at_ = 0;
};

}  // namespace heddle::jit
