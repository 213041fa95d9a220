// Random programs in index notation, for differential tests: small tensors of all dtypes, affine,
// static and computed subscripts, every accumulation and reduction, merge reads, memory modes. The
// seed decides everything. One thread per generator.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "heddle/host_array.hpp"
#include "heddle/program.hpp"

namespace heddle::jit::testing {

struct RandomProgram {
  Program program;
  /// Every static index of the program, with a value in its range.
  std::vector<std::pair<StaticIndex, std::int64_t>> statics;
};

struct RandomProgramOptions {
  bool modes = true;    ///< ask for random memory modes on some tensors
  bool library = true;  ///< exp, sin, ...
  /// Mixes extents of up to 80 with extents of up to 4, ranks of up to 5: schedules cut such loops
  /// into tiles, vectors and remainders. A statement runs some 10,000 iterations at most.
  bool large = false;
};

[[nodiscard]] RandomProgram random_program(std::uint64_t seed,
                                           const RandomProgramOptions& options = {});
/// An array with varied contents: zeros of both signs, small and large numbers, fractions, for
/// floats now and then NaN and infinity.
[[nodiscard]] HostArray random_array(const ArrayType& type, std::uint64_t seed);

}  // namespace heddle::jit::testing
