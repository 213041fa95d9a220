// Letters, digits and words of ASCII, whatever the host's locale: <cctype> and streams go by that,
// and what heddle names, compares and parses must not. Pure; any thread.
#pragma once

#include <locale>
#include <sstream>
#include <string>
#include <utility>

namespace heddle::files {

[[nodiscard]] constexpr bool is_digit(char c) noexcept { return c >= '0' && c <= '9'; }
[[nodiscard]] constexpr char lower(char c) noexcept {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}
[[nodiscard]] constexpr bool is_letter_or_digit(char c) noexcept {
  return is_digit(c) || (lower(c) >= 'a' && lower(c) <= 'z');
}
/// What separates words: blanks, and ends of lines.
[[nodiscard]] constexpr bool is_space(char c) noexcept {
  return c == ' ' || (c >= '\t' && c <= '\r');
}

/// Reads words and integers of a text one after another.
class WordStream : public std::istringstream {
 public:
  explicit WordStream(std::string text) : std::istringstream(std::move(text)) {
    imbue(std::locale::classic());
  }
};

}  // namespace heddle::files
