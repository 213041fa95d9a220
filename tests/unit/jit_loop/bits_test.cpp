// What a kernel computes depends on extents, schedule and instruction set: the interpreter runs
// schedules for different processors.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "heddle/host_array.hpp"
#include "jit/loop/text.hpp"
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

/// Any that a backend takes: most of them fit no machine.
KernelProfile random_profile(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto upto = [&](int bits) {
    return std::int64_t{1} + static_cast<std::int64_t>(random() >> (64 - bits));
  };
  KernelProfile profile;
  profile.terms_ahead = upto(6);
  profile.lines_fetched = upto(4);
  profile.lines_written = upto(4);
  profile.lines_ahead = upto(8);
  profile.rows_together = upto(4);
  profile.unrolled_steps = upto(10);
  profile.cached_bytes_max = upto(14);
  profile.part_bytes = upto(static_cast<int>(1 + random() % 14));
  check(profile);
  return profile;
}

// W1, W2: the profile decides how kernels run, never in which order they add
TEST(BitsTest, DoNotDependOnProfiles) {
  std::size_t others = 0;
  for (const auto make : {random_rows, random_transpose, random_contraction}) {
    for (std::uint64_t seed = 1; seed <= test::seeds(60); ++seed) {
      const Program program = make(seed);
      Target target = tiny_target(seed % 2 == 0 ? Isa::avx2 : Isa::avx512_vnni);
      const std::string usual = print(schedule(optimize(lower(program)), target).loop);
      const auto expected = computed(program, target);
      target.profile = random_profile(seed);
      const std::string made = print(schedule(optimize(lower(program)), target).loop);
      others += made != usual ? 1 : 0;
      EXPECT_TRUE(same(expected, computed(program, target))) << "seed " << seed << "\n"
                                                             << usual << made;
    }
  }
  EXPECT_GT(others, test::seeds(60));
}

// W1, W2: where long sums are cut does not follow from the profile either
TEST(BitsTest, OfLongSumsDoNotDependOnProfiles) {
  const Tensor x("x", f32, {3000, 40}), all("all", f32, {}), flat("flat", f32, {120'000});
  const Index i, k;
  Program whole("whole"), long_row("long_row");
  whole << (all() = sum(x(i, k)));
  long_row << (all() = sum(flat(i)));
  for (const Program& program : {whole, long_row}) {
    const auto expected = computed(program, with_isa(Target{}, Isa::avx2));
    const Loop usual = schedule(optimize(lower(program)), with_isa(Target{}, Isa::avx2)).loop;
    EXPECT_NE(print(usual).find(", in 3 blocks"), std::string::npos) << print(usual);
    for (const std::int64_t part_bytes : {1, 4096, 100'000, 1 << 24}) {
      Target target = with_isa(Target{}, Isa::avx2);
      target.profile.part_bytes = part_bytes;
      EXPECT_TRUE(same(expected, computed(program, target))) << part_bytes;
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
