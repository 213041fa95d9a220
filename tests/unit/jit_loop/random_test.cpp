// Differential tests of the passes: random programs, interpreted before and after optimising.
#include <gtest/gtest.h>

#include <cstring>

#include "heddle/status.hpp"
#include "jit/loop_text.hpp"
#include "jit/lower.hpp"
#include "jit/verify.hpp"
#include "support/loop_interpreter.hpp"
#include "support/random_program.hpp"

namespace heddle::jit::testing {
namespace {

std::vector<std::int64_t> values_of(const Lowered& lowered, const RandomProgram& random) {
  std::vector<std::int64_t> values;
  for (const StaticIndex& index : lowered.statics) {
    for (const auto& [known, value] : random.statics) {
      if (known == index) values.push_back(value);
    }
  }
  return values;
}

bool is_merge(const Lowered& lowered, std::size_t k) {
  return lowered.loop.buffers[k].role == Role::merge;
}

HostArray copy(const HostArray& from) {
  HostArray to(from.type());
  if (from.num_bytes() > 0) std::memcpy(to.data(), from.data(), from.num_bytes());
  return to;
}

void spoil(const HostArray& array) {
  if (array.num_bytes() > 0) std::memset(array.data(), 0xa5, array.num_bytes());
}

std::string texts(const Lowered& before, const Lowered& after) {
  return print(before.loop) + "\n" + print(after.loop);
}

/// Runs both kernels on the same inputs and compares what outlives a run. Scratch, and what the
/// signature says is overwritten whole, starts as garbage in the optimised run.
void expect_same_results(const Lowered& before, const Lowered& after, const RandomProgram& random,
                         std::uint64_t seed) {
  std::vector<HostArray> expected;
  for (std::size_t k = 0; k < before.tensors.size(); ++k)
    expected.push_back(random_array(before.loop.buffers[k].type, seed + k));
  std::vector<HostArray> found;
  std::vector<std::size_t> partner;
  const Signature signature = make_signature(after.loop);
  for (std::size_t k = 0; k < after.tensors.size(); ++k) {
    std::size_t from = 0;
    while (!(before.tensors[from] == after.tensors[k] &&
             is_merge(before, from) == is_merge(after, k))) {
      ++from;
    }
    partner.push_back(from);
    found.push_back(copy(expected[from]));
    const SignatureEntry& entry = signature.entries[k];
    if (entry.role == Role::scratch || entry.overwrites_whole) spoil(found.back());
  }
  interpret(before.loop, expected, values_of(before, random));
  interpret(after.loop, found, values_of(after, random));
  for (std::size_t k = 0; k < found.size(); ++k) {
    if (after.loop.buffers[k].role == Role::scratch) continue;
    ASSERT_TRUE(same_elements(expected[partner[k]], found[k]))
        << "seed " << seed << " t" << k << "\n"
        << render_array(expected[partner[k]].type(), expected[partner[k]].data()) << "\n"
        << render_array(found[k].type(), found[k].data()) << "\n"
        << random.program.to_string() << texts(before, after);
  }
}

// J5: every pass keeps every bit of every result; the texts round-trip
TEST(RandomProgramTest, OptimisedEqualsUnoptimisedBitForBit) {
  int optimized = 0;
  int shorter = 0;
  for (std::uint64_t seed = 1; seed <= 3000; ++seed) {
    const RandomProgram random = random_program(seed);
    const Lowered before = lower(random.program);
    const Status legal = verify(before.loop);
    ASSERT_TRUE(legal.ok()) << legal.to_string() << print(before.loop);
    ASSERT_TRUE(parse_loop(print(before.loop)) == before.loop) << print(before.loop);
    Lowered after;
    try {
      after = optimize(before);
    } catch (const Error& e) {  // a requested mode that this program cannot keep
      ASSERT_EQ(e.code(), ErrorCode::invalid_argument) << "seed " << seed << e.what();
      continue;
    }
    ASSERT_TRUE(parse_loop(print(after.loop)) == after.loop) << print(after.loop);
    ASSERT_EQ(Signature::parse(make_signature(after.loop).serialize()), make_signature(after.loop));
    expect_same_results(before, after, random, seed);
    if (HasFatalFailure()) return;
    ++optimized;
    shorter += after.tensors.size() < before.tensors.size() ? 1 : 0;
  }
  EXPECT_GT(optimized, 1500);
  EXPECT_GT(shorter, 100) << "virtual tensors should vanish now and then";
}

// J5: inlining off, and more visits allowed, change nothing but speed
TEST(RandomProgramTest, OptionsDoNotChangeResults) {
  for (std::uint64_t seed = 10'001; seed <= 10'600; ++seed) {
    const RandomProgram random = random_program(seed, {.modes = false});
    const Lowered before = lower(random.program);
    for (OptimizeOptions options :
         {OptimizeOptions{.inline_virtual = false}, OptimizeOptions{.max_visits = 1000}}) {
      expect_same_results(before, optimize(before, options), random, seed);
      if (HasFatalFailure()) return;
    }
  }
}

}  // namespace
}  // namespace heddle::jit::testing
