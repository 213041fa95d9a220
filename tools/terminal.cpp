// See terminal.hpp.
#include "tools/terminal.hpp"

#include <unistd.h>

#include <cstdlib>

namespace heddle::tools {
namespace {

/// Set and not empty, as in the convention.
bool is_set(const char* variable) {
  const char* value = std::getenv(variable);  // NOLINT(concurrency-mt-unsafe): one thread
  return value != nullptr && *value != '\0';
}

}  // namespace

bool is_terminal(std::FILE* stream) {
  const char* kind = std::getenv("TERM");  // NOLINT(concurrency-mt-unsafe): one thread
  return isatty(fileno(stream)) == 1 && (kind == nullptr || std::string_view(kind) != "dumb");
}

bool use_colour(std::FILE* stream) { return is_terminal(stream) && !is_set("NO_COLOR"); }

std::string paint(std::string_view text, Colour colour, bool on) {
  if (!on) return std::string(text);
  constexpr std::string_view codes[] = {"32", "31", "2", "1"};
  return "\x1b[" + std::string(codes[static_cast<int>(colour)]) + "m" + std::string(text) +
         "\x1b[0m";
}

}  // namespace heddle::tools
