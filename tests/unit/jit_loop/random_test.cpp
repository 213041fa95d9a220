// Differential tests of the passes: random programs, interpreted before and after optimising.
// HEDDLE_TEST_SEEDS=n looks at n programs instead of a few thousand.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "heddle/status.hpp"
#include "jit/describe/expr.hpp"
#include "jit/loop/text.hpp"
#include "jit/loop/verify.hpp"
#include "jit/lower/lower.hpp"
#include "jit/schedule/schedule.hpp"
#include "jit/system/inside.hpp"
#include "support/loop_interpreter.hpp"
#include "support/random_contraction.hpp"
#include "support/random_program.hpp"
#include "support/seeds.hpp"

namespace heddle::jit::testing {
namespace {

using test::seeds;

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
                         const Signature& signature, std::uint64_t seed) {
  std::vector<HostArray> expected;
  for (std::size_t k = 0; k < before.tensors.size(); ++k)
    expected.push_back(random_array(before.loop.buffers[k].type, seed + k));
  std::vector<HostArray> found;
  std::vector<std::size_t> partner;
  for (std::size_t k = 0; k < after.tensors.size(); ++k) {
    if (after.loop.buffers[k].role == Role::scratch) {  // perhaps the schedule's own
      partner.push_back(before.tensors.size());
      found.emplace_back(after.loop.buffers[k].type);
      spoil(found.back());
      continue;
    }
    std::size_t from = 0;
    while (!(before.tensors[from] == after.tensors[k] &&
             is_merge(before, from) == is_merge(after, k))) {
      ++from;
    }
    partner.push_back(from);
    found.push_back(copy(expected[from]));
    const SignatureEntry& entry = signature.entries[k];
    if (entry.overwrites_whole) spoil(found.back());
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

/// Tensors whose last statement assigns them, and for whose storage nobody asked otherwise:
/// results.
std::vector<Tensor> results_of(const Program& program) {
  std::vector<Tensor> results;
  for (const Statement& statement : program.statements()) {
    const StatementNode& node = *Inside::of(statement);
    const bool runs = std::ranges::none_of(node.space, [&](const SpaceAxis& axis) {
      return axis.extent == 0 && !(axis.reduced && node.initialize_neutral);
    });
    if (!runs) continue;
    walk(node, [&](const ExprNode& e) {
      if (e.kind == ExprKind::read) std::erase(results, *e.tensor);
    });
    std::erase(results, *node.target);
    const bool kept =
        node.target->mode() == MemoryMode::unset && node.target->type().num_elements() > 0;
    if (kept) results.push_back(*node.target);
  }
  return results;
}

void expect_results_kept(const RandomProgram& random, const Lowered& after, std::uint64_t seed) {
  for (const Tensor& tensor : results_of(random.program)) {
    bool kept = false;
    for (std::size_t k = 0; k < after.tensors.size(); ++k) {
      kept = kept || (after.tensors[k] == tensor && !is_merge(after, k) &&
                      after.loop.buffers[k].role != Role::scratch);
    }
    ASSERT_TRUE(kept) << "seed " << seed << ": the result '" << tensor.label() << "' is lost\n"
                      << random.program.to_string() << print(after.loop);
  }
}

// J5: every pass keeps every bit of every result; the texts round-trip
TEST(RandomProgramTest, OptimisedEqualsUnoptimisedBitForBit) {
  std::uint64_t optimized = 0;
  std::uint64_t shorter = 0;
  const std::uint64_t count = seeds(3000);
  for (std::uint64_t seed = 1; seed <= count; ++seed) {
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
    ASSERT_EQ(Signature::parse(make_signature(after).serialize()), make_signature(after));
    expect_same_results(before, after, random, make_signature(after), seed);
    expect_results_kept(random, after, seed);
    if (HasFatalFailure()) return;
    ++optimized;
    shorter += after.tensors.size() < before.tensors.size() ? 1 : 0;
  }
  EXPECT_GT(optimized, count / 2);
  EXPECT_GT(shorter, count / 30) << "virtual tensors should vanish now and then";
}

// J5, J9: without fma, and with rows too short for several sums, schedules keep every bit too
TEST(RandomProgramTest, ScheduledEqualsUnscheduledBitForBit) {
  const std::uint64_t count = seeds(1000);
  for (std::uint64_t seed = 2'000'001; seed <= 2'000'000 + count; ++seed) {
    const RandomProgram random = random_program(seed, {.modes = false});
    const Lowered before = optimize(lower(random.program));
    const Lowered after = schedule(before, tiny_target(Isa::portable));
    expect_same_results(before, after, random, make_signature(after), seed);
    if (HasFatalFailure()) return;
  }
}

// J5: inlining off, and more visits allowed, change nothing but speed
TEST(RandomProgramTest, OptionsDoNotChangeResults) {
  const std::uint64_t count = seeds(600);
  for (std::uint64_t seed = 1'000'001; seed <= 1'000'000 + count; ++seed) {
    const RandomProgram random = random_program(seed, {.modes = false});
    const Lowered before = lower(random.program);
    for (OptimizeOptions options :
         {OptimizeOptions{.inline_virtual = false}, OptimizeOptions{.max_visits = 1000}}) {
      const Lowered after = optimize(before, options);
      expect_same_results(before, after, random, make_signature(after), seed);
      if (HasFatalFailure()) return;
    }
  }
}

}  // namespace
}  // namespace heddle::jit::testing
