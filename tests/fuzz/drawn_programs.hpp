// The random programs of a range of seeds. One thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "heddle/status.hpp"
#include "jit/lower/lower.hpp"
#include "support/random_contraction.hpp"
#include "support/random_program.hpp"

namespace heddle::jit::testing {

struct Drawn {
  std::uint64_t seed;
  RandomProgram random;
};

/// Those of the seeds that compile, and merge nothing.
inline std::vector<Drawn> programs_from(std::uint64_t first, std::uint64_t end) {
  std::vector<Drawn> drawn;
  for (std::uint64_t seed = first; seed < end; ++seed) {
    RandomProgram random = random_program(seed, {.large = seed % 4 != 0});
    try {
      const Lowered lowered = optimize(lower(random.program));
      if (std::ranges::none_of(lowered.loop.buffers,
                               [](const auto& buffer) { return buffer.role == Role::merge; }))
        drawn.push_back({seed, std::move(random)});
    } catch (const Error&) {  // a memory mode that it cannot keep
    }
  }
  return drawn;
}

/// For GPUs: the seeds' programs, and of each tenth seed a chain of elementwise statements and
/// reductions, sums of products, and a permutation.
inline std::vector<Drawn> gpu_programs_from(std::uint64_t first, std::uint64_t end) {
  std::vector<Drawn> drawn = programs_from(first, end);
  for (std::uint64_t seed = first; seed < end; seed += 10) {
    drawn.push_back({seed + 1'000'000'000, {random_rows(seed), {}}});
    drawn.push_back({seed + 2'000'000'000, {random_contraction(seed), {}}});
    drawn.push_back({seed + 3'000'000'000, {random_transpose(seed), {}}});
  }
  return drawn;
}

}  // namespace heddle::jit::testing
