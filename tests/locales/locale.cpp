// A host with a locale of its own: where HEDDLE_TEST_LOCALE names one, the test program has it from
// its start, for the C library and for streams.
#include <cstdlib>
#include <locale>

namespace heddle {
namespace {

/// Throws, which ends the program, where there is no such locale.
const bool has_locale = [] {
  const char* const name = std::getenv("HEDDLE_TEST_LOCALE");
  if (name != nullptr) std::locale::global(std::locale(name));
  return name != nullptr;
}();

}  // namespace
}  // namespace heddle
