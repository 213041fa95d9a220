// Random programs, and what they leave when a device runs them. One thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "fuzz/context_arrays.hpp"
#include "heddle/heddle.hpp"
#include "jit/lower/lower.hpp"
#include "support/random_program.hpp"

namespace heddle::jit::testing {

/// What a program leaves in its context, and in how many parts it ran.
struct Left {
  std::vector<Tensor> tensors;
  std::vector<HostArray> arrays;  ///< of these; before, they are random_array() of seed + position
  std::uint64_t parts = 0;
};

inline Left run(const Device& device, const Code& code, const RandomProgram& random,
                std::uint64_t seed) {
  const std::uint64_t before = device.statistics().parts;
  const Routine routine = Context(device).link(code);
  const std::vector<Tensor> tensors = routine.context().tensors();
  for (std::size_t k = 0; k < tensors.size(); ++k)
    write(routine.context(), tensors[k], random_array(tensors[k].type(), seed + k));
  Bindings bindings;
  for (const StaticIndex& index : code.statics()) {
    const auto at = std::ranges::find(random.statics, index, [](const auto& s) { return s.first; });
    bindings.emplace_back(index, at->second);
  }
  throw_if_failed(routine.schedule(bindings).wait());
  Left left{tensors, {}};
  for (const Tensor& tensor : tensors) left.arrays.push_back(read(routine.context(), tensor));
  left.parts = device.statistics().parts - before;
  return left;
}

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

}  // namespace heddle::jit::testing
