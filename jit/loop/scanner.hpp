// The tokens of the texts of loops and graphs, and the position of errors in a text. One thread.
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
  /// `kind`: the name of the text in errors.
  Scanner(std::string_view text, std::string_view kind) : text_(text), kind_(kind) {}

  /// Throws invalid_argument: line, column, the expected and the found text.
  [[noreturn]] void fail(std::string_view expected);

  /// Skips blanks and comments; if the token is next, consumes it and returns true.
  bool accept(std::string_view token);
  void expect(std::string_view token) {
    if (!accept(token)) fail(fmt::format("'{}'", token));
  }
  /// `what`: the expected text for the error, if there is no such number.
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
  /// The next word, which is not consumed.
  std::string_view word();
  DType dtype();
  /// Parses extents after the opening bracket.
  Dims extents();
  /// "1:f32"
  Scalar scalar();

 protected:
  /// Skips blanks; with `comments`, comments too.
  void skip(bool comments);

  std::string_view text_;
  std::string_view kind_;
  std::size_t at_ = 0;
};

}  // namespace heddle::jit
