// The values of a random program's static indices, for its kernel. Pure; any thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "jit/lower/lower.hpp"
#include "support/random_program.hpp"

namespace heddle::jit::testing {

inline std::vector<std::int64_t> statics_of(const Lowered& lowered, const RandomProgram& random) {
  std::vector<std::int64_t> values;
  for (const StaticIndex& index : lowered.statics) {
    const auto at = std::ranges::find(random.statics, index, [](const auto& s) { return s.first; });
    values.push_back(at->second);
  }
  return values;
}

}  // namespace heddle::jit::testing
