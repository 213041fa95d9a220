// Features of the terminal: colours, and lines that are redrawn. One thread.
#pragma once

#include <cstdio>
#include <string>
#include <string_view>

namespace heddle::tools {

enum class Colour { good, bad, dim, strong };

/// A terminal that understands escape codes, and no NO_COLOR (https://no-color.org).
[[nodiscard]] bool use_colour(std::FILE* stream);
/// A terminal, where a line may be redrawn.
[[nodiscard]] bool is_terminal(std::FILE* stream);
/// `text` in that colour if `on`, else `text`.
[[nodiscard]] std::string paint(std::string_view text, Colour colour, bool on);

}  // namespace heddle::tools
