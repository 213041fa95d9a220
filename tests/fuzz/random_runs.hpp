// Runs of random programs on a device, and what they leave. One thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "fuzz/context_arrays.hpp"
#include "fuzz/drawn_programs.hpp"
#include "heddle/heddle.hpp"

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

}  // namespace heddle::jit::testing
