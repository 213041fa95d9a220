// What a kernel computes depends on extents, schedule and instruction set: the interpreter runs
// schedules for different processors.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "heddle/host_array.hpp"
#include "jit/lower/lower.hpp"
#include "jit/schedule/schedule.hpp"
#include "support/loop_interpreter.hpp"
#include "support/random_contraction.hpp"
#include "support/seeds.hpp"

namespace heddle::jit::testing {
namespace {

/// Numbers whose sums depend on their order.
HostArray rough_numbers(const ArrayType& type, std::uint64_t seed) {
  return is_floating(type.dtype) ? HostArray::uniform(type, seed) : small_numbers(type, seed);
}

/// What `program` makes of such numbers on `target`: all its buffers but scratch.
std::vector<HostArray> computed(const Program& program, const Target& target) {
  const Loop loop = schedule(optimize(lower(program)), target).loop;
  std::vector<HostArray> arrays;
  for (std::size_t k = 0; k < loop.buffers.size(); ++k)
    arrays.push_back(rough_numbers(loop.buffers[k].type, k));
  interpret(loop, arrays);
  std::vector<HostArray> kept;
  for (std::size_t k = 0; k < arrays.size(); ++k) {
    if (loop.buffers[k].role != Role::scratch) kept.push_back(arrays[k]);
  }
  return kept;
}

bool same(const std::vector<HostArray>& a, const std::vector<HostArray>& b) {
  bool all = a.size() == b.size();
  for (std::size_t k = 0; all && k < a.size(); ++k) all = same_elements(a[k], b[k]);
  return all;
}

// W1, B3: caches decide how rows and permuted arrays are cut, never what they compute
TEST(BitsTest, OfRowsDoNotDependOnCaches) {
  for (const Isa isa : {Isa::portable, Isa::avx2, Isa::avx512}) {
    for (const auto make : {random_rows, random_transpose}) {
      for (std::uint64_t seed = 1; seed <= test::seeds(40); ++seed) {
        const Program program = make(seed);
        EXPECT_TRUE(
            same(computed(program, tiny_target(isa)), computed(program, with_isa(Target{}, isa))))
            << name(isa) << " seed " << seed << "\n"
            << program.to_string();
      }
    }
  }
}

// W1: what is done element by element has the same bits on every processor
TEST(BitsTest, OfElementwiseWorkHoldEverywhere) {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    const Program program = random_transpose(seed);
    const auto portable = computed(program, with_isa(Target{}, Isa::portable));
    EXPECT_TRUE(same(portable, computed(program, with_isa(Target{}, Isa::avx2))) &&
                same(portable, computed(program, with_isa(Target{}, Isa::avx512))))
        << "seed " << seed << "\n"
        << program.to_string();
  }
}

// W1: sums have as many parts as vectors have lanes: what README.md promises of them holds for one
// instruction set
TEST(BitsTest, OfSumsAreThoseOfAnInstructionSet) {
  const Tensor x("x", f32, {4, 100}), y("y", f32, {4});
  Index i, k;
  Program rows("rows");
  rows << (y(i) = sum(x(i, k)));
  const auto portable = computed(rows, with_isa(Target{}, Isa::portable));
  const auto avx512 = computed(rows, with_isa(Target{}, Isa::avx512));
  EXPECT_FALSE(same(portable, avx512)) << "say in README.md that bits hold across processors";
}

}  // namespace
}  // namespace heddle::jit::testing
