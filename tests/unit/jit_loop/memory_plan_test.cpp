// The plan of scratch memory: what is alive at once lies apart, and what is not shares bytes.
#include "jit/code/memory_plan.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "heddle/heddle.hpp"
#include "jit/system/inside.hpp"

namespace heddle::jit {
namespace {

using testing::ElementsAre;

/// Two that meet and share a byte, or a place that is not aligned.
bool is_wrong(const std::vector<Lifetime>& lifetimes, const MemoryPlan& plan) {
  for (std::size_t a = 0; a < lifetimes.size(); ++a) {
    if (plan.offsets[a] % 64 != 0) return true;
    if (plan.offsets[a] + lifetimes[a].bytes > plan.bytes) return true;
    for (std::size_t b = 0; b < a; ++b) {
      const bool apart = plan.offsets[a] + lifetimes[a].bytes <= plan.offsets[b] ||
                         plan.offsets[b] + lifetimes[b].bytes <= plan.offsets[a];
      if (lifetimes[a].meets(lifetimes[b]) && !apart) return true;
    }
  }
  return false;
}

/// The best that placing them one by one, each as low as it fits, reaches in any order: an optimal
/// plan is among these.
std::size_t best_of_all_orders(const std::vector<Lifetime>& lifetimes) {
  std::vector<std::size_t> order(lifetimes.size());
  std::iota(order.begin(), order.end(), 0);
  std::size_t best = ~std::size_t{0};
  do {
    std::vector<std::size_t> offsets(lifetimes.size());
    std::size_t bytes = 0;
    for (std::size_t k = 0; k < order.size(); ++k) {
      std::size_t at = 0;
      for (bool moved = true; moved;) {
        moved = false;
        for (std::size_t j = 0; j < k; ++j) {
          const Lifetime& other = lifetimes[order[j]];
          const std::size_t from = offsets[order[j]], to = from + other.bytes;
          if (!other.meets(lifetimes[order[k]]) || at + lifetimes[order[k]].bytes <= from ||
              to <= at)
            continue;
          at = to;
          moved = true;
        }
      }
      offsets[order[k]] = at;
      bytes = std::max(bytes, at + lifetimes[order[k]].bytes);
    }
    best = std::min(best, bytes);
  } while (std::ranges::next_permutation(order).found);
  return best;
}

TEST(MemoryPlanTest, WhatDoesNotMeetSharesBytes) {
  const std::vector<Lifetime> chain{{1000, 0, 1}, {1000, 1, 2}, {1000, 2, 3}, {1000, 3, 4}};
  const MemoryPlan plan = pack(chain);
  EXPECT_THAT(plan.offsets, ElementsAre(0, 1024, 0, 1024));
  EXPECT_EQ(plan.bytes, 2048U);
  EXPECT_EQ(most_alive(chain), 2048U);
  EXPECT_EQ(pack({}).bytes, 0U);
  EXPECT_EQ(pack(std::vector<Lifetime>{{0, 0, 9}, {1, 0, 9}, {0, 0, 9}}).bytes, 64U);
}

// D2: random lifetimes: nothing that is alive at once overlaps; never below the lower bound, and
// within a third of the best plan there is
TEST(MemoryPlanTest, RandomLifetimesAgainstAllOrders) {
  std::mt19937_64 random(1);
  std::size_t ours = 0, best = 0;
  for (int round = 0; round < 300; ++round) {
    std::vector<Lifetime> lifetimes(1 + random() % 6);
    for (Lifetime& each : lifetimes) {
      each.first = random() % 8;
      each.last = each.first + random() % 4;
      each.bytes = 64 * (random() % 8);
    }
    const MemoryPlan plan = pack(lifetimes);
    ASSERT_FALSE(is_wrong(lifetimes, plan)) << round;
    const std::size_t optimal = best_of_all_orders(lifetimes);
    ASSERT_GE(plan.bytes, optimal) << round;
    ASSERT_GE(optimal, most_alive(lifetimes)) << round;
    ASSERT_LE(3 * plan.bytes, 4 * optimal) << round;
    ours += plan.bytes;
    best += optimal;
  }
  EXPECT_LE(100 * ours, 102 * best);
}

// D2: many
TEST(MemoryPlanTest, ManyRandomLifetimes) {
  std::mt19937_64 random(2);
  for (int round = 0; round < 20; ++round) {
    std::vector<Lifetime> lifetimes(200);
    for (Lifetime& each : lifetimes) {
      each.first = random() % 300;
      each.last = each.first + random() % 30;
      each.bytes = random() % 100'000;
    }
    const MemoryPlan plan = pack(lifetimes);
    ASSERT_FALSE(is_wrong(lifetimes, plan)) << round;
    ASSERT_GE(plan.bytes, most_alive(lifetimes)) << round;
  }
}

KernelStep kernel(const Signature& signature, std::vector<std::uint32_t> entries,
                  const Block& body) {
  Loop loop;
  for (const std::uint32_t entry : entries) {
    const SignatureEntry& of = signature.entries[entry];
    loop.buffers.push_back({of.role == Role::input ? Role::input : Role::inout, of.type});
  }
  loop.body = body;
  return {VerifiedLoop(loop), nullptr, std::move(entries), {}};
}

/// buffer[i] of all 16 elements becomes those of another one.
StmtPtr assign(VarId var, BufferId to, BufferId from) {
  return make_loop(var, 0, 16,
                   {make_store(to, {affine_var(var)}, make_load(from, f32, {affine_var(var)}))});
}

// D2: places are the statements of the top level of each kernel, and the other steps
TEST(MemoryPlanTest, LifetimesAreThoseOfSteps) {
  Signature signature;
  signature.entries.resize(5);
  for (SignatureEntry& entry : signature.entries) {
    entry.type = {f32, {16}};
    entry.role = Role::scratch;
  }
  signature.entries[0].role = Role::input;
  signature.entries[4].role = Role::output;
  const std::vector<Step> steps{
      MergeStep{},
      kernel(signature, {0, 1, 2}, {assign(0, 1, 0), assign(1, 2, 1)}),  // at 1 and 2
      ZeroStep{3},                                                       // at 3
      kernel(signature, {3, 2, 4}, {assign(0, 0, 1), assign(1, 2, 0)}),  // at 4 and 5
      CopyStep{4, 3},                                                    // at 6
  };
  const std::vector<Lifetime> lifetimes = lifetimes_of(signature, steps);
  EXPECT_EQ(lifetimes[0].first, 1U);
  EXPECT_EQ(lifetimes[0].last, 1U);
  EXPECT_EQ(lifetimes[1].first, 1U);
  EXPECT_EQ(lifetimes[1].last, 2U);
  EXPECT_EQ(lifetimes[2].first, 2U);
  EXPECT_EQ(lifetimes[2].last, 4U);
  EXPECT_EQ(lifetimes[3].first, 3U);
  EXPECT_EQ(lifetimes[3].last, 6U);
  const MemoryPlan plan = plan_scratch(signature, steps);
  EXPECT_EQ(plan.bytes, 128U);
  EXPECT_EQ(plan.offsets[1], plan.offsets[3]);
  EXPECT_NE(plan.offsets[1], plan.offsets[2]);
}

}  // namespace
}  // namespace heddle::jit
