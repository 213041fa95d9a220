// The syntax of part names in the text of a tree and in paths (heddle/tree_def.hpp).
#pragma once

#include <string>
#include <string_view>

namespace heddle::jit {

inline constexpr unsigned tree_depth_max = 1000;
inline constexpr std::string_view hex_digits = "0123456789abcdef";

/// Bytes of field names: letters, digits, _, $, and bytes of non-ASCII letters.
inline bool is_name_byte(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '$' || static_cast<unsigned char>(c) > 127;
}

inline std::string quoted_key(std::string_view key) {
  std::string text = "\"";
  for (const char c : key) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 32 || byte == 127) {
      text += "\\x";
      text += hex_digits[byte / 16];
      text += hex_digits[byte % 16];
    } else {
      if (c == '"' || c == '\\') text += '\\';
      text += c;
    }
  }
  return text += '"';
}

}  // namespace heddle::jit
