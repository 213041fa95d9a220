// Number of cases in random tests.
#pragma once

#include <cstdint>
#include <cstdlib>

#include "scheduler/sanitizers.hpp"

namespace heddle::test {

/// A number from the environment, `usual` by default.
inline std::uint64_t from_environment(const char* name, std::uint64_t usual) {
  const char* const text = std::getenv(name);
  return text == nullptr ? usual : std::strtoull(text, nullptr, 10);
}

#if defined(HEDDLE_ASAN) || defined(HEDDLE_TSAN)
inline constexpr std::uint64_t slower = 10;
#else
inline constexpr std::uint64_t slower = 1;
#endif

/// HEDDLE_TEST_SEEDS, `usual` by default; under the slower sanitizers a tenth of `usual`.
inline std::uint64_t seeds(std::uint64_t usual) {
  return from_environment("HEDDLE_TEST_SEEDS", usual / slower);
}

}  // namespace heddle::test
