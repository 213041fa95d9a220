// Candidates of tuning: which there are, and that they compute what they say.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "heddle/host_array.hpp"
#include "jit/loop/text.hpp"
#include "jit/lower/lower.hpp"
#include "jit/schedule/schedule.hpp"
#include "jit/tune/candidates.hpp"
#include "jit/tune/estimate.hpp"
#include "support/loop_interpreter.hpp"
#include "support/random_contraction.hpp"
#include "support/seeds.hpp"

namespace heddle::jit::testing {
namespace {

/// All that there are, whatever their estimates.
CandidateOptions everything() {
  CandidateOptions options;
  options.near = INFINITY;
  options.most = SIZE_MAX;
  return options;
}

/// Numbers whose sums depend on their order, in all buffers.
std::vector<HostArray> contents(const Loop& loop) {
  std::vector<HostArray> arrays;
  for (std::size_t k = 0; k < loop.buffers.size(); ++k) {
    const ArrayType& type = loop.buffers[k].type;
    arrays.push_back(is_floating(type.dtype) ? HostArray::uniform(type, k)
                                             : small_numbers(type, k));
  }
  return arrays;
}

/// Terms in words are exact in any order, and nothing for the interpreter.
bool has_words(const Loop& loop) {
  const std::string text = print(loop);
  return text.find("dot2") != std::string::npos || text.find("dot4") != std::string::npos;
}

/// What a scheduled kernel makes of them: all its buffers but scratch.
std::vector<HostArray> computed_by(const Loop& loop) {
  std::vector<HostArray> arrays = contents(loop);
  interpret(loop, arrays);
  std::vector<HostArray> kept;
  for (std::size_t k = 0; k < arrays.size(); ++k) {
    if (loop.buffers[k].role != Role::scratch) kept.push_back(arrays[k]);
  }
  return kept;
}

bool same_bits(const std::vector<HostArray>& a, const std::vector<HostArray>& b) {
  bool all = a.size() == b.size();
  for (std::size_t k = 0; all && k < a.size(); ++k) all = same_elements(a[k], b[k]);
  return all;
}

Loop scheduled_as(const Lowered& optimized, const Target& target, const ScheduleChoices& choices) {
  return schedule(optimized, target, {}, {}, choices).loop;
}

Program product(std::int64_t rows, std::int64_t terms, std::int64_t lanes) {
  const Tensor a("a", f32, {rows, terms}), b("b", f32, {terms, lanes}), c("c", f32, {rows, lanes});
  const Index i, j, k;
  Program program("product");
  program << (c(i, j) += a(i, k) * b(k, j));
  return program;
}

// W3, B3: candidates that say so have the bits of the model's choice, and some others have not
TEST(CandidatesTest, OrdersTellWhichBitsAreTheSame) {
  std::size_t same = 0, other = 0, differ = 0;
  // So many under sanitizers, too: fewer have no program whose order matters.
  const std::uint64_t seeds = std::max<std::uint64_t>(test::seeds(12), 12);
  for (const auto make : {random_contraction, random_rows, random_transpose}) {
    for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
      const Target target = tiny_target(seed % 2 == 0 ? Isa::avx2 : Isa::avx512);
      const Program program = make(seed);
      const Lowered optimized = optimize(lower(program));
      CandidateOptions options = everything();
      options.reassociate = true;
      const auto candidates = list_candidates(optimized, target, {}, options);
      const Loop model = scheduled_as(optimized, target, {});
      if (has_words(model)) continue;
      const auto expected = computed_by(model);
      for (std::size_t k = 1; k < candidates.size(); k += 1 + seed % 5) {
        const Loop loop = scheduled_as(optimized, target, candidates[k].choices);
        const bool equal = same_bits(expected, computed_by(loop));
        ++(candidates[k].same_order ? same : other);
        differ += equal ? 0 : 1;
        ASSERT_TRUE(equal || !candidates[k].same_order)
            << "seed " << seed << ": " << candidates[k].choices.to_string() << "\n"
            << program.to_string() << print(model) << print(loop);
      }
    }
  }
  EXPECT_GT(same, 100u);
  EXPECT_GT(other, 10u);
  EXPECT_GT(differ, 0u) << "no order matters here, and nothing was tested";
}

// W3: the model's choice comes first, the others by their estimates; no two have the same loops
TEST(CandidatesTest, AreEachOnceInTheOrderOfTheirEstimates) {
  const Target target = tiny_target(Isa::avx2);
  const Lowered optimized = optimize(lower(product(40, 60, 50)));
  const auto all = list_candidates(optimized, target, {}, everything());
  ASSERT_GT(all.size(), 10u);
  EXPECT_TRUE(all[0].choices.empty());
  EXPECT_TRUE(
      std::ranges::is_sorted(all.begin() + 1, all.end(), {}, &TunedCandidate::estimated_us));
  std::set<std::string> loops;
  for (const TunedCandidate& each : all) {
    const Loop loop = scheduled_as(optimized, target, each.choices);
    const std::string parts = each.choices.part_bytes ? each.choices.to_string() : "";
    EXPECT_TRUE(loops.insert(hash(loop) + parts).second) << each.choices.to_string();
  }
  EXPECT_EQ(list_candidates(optimized, target, {}, everything()), all) << "not deterministic";
}

// W3: far estimates are left out, and what is beyond the most that are wanted
TEST(CandidatesTest, AreNearAndNotTooMany) {
  const Target target = tiny_target(Isa::avx2);
  const Lowered optimized = optimize(lower(product(40, 60, 50)));
  const auto all = list_candidates(optimized, target, {}, everything());
  EXPECT_GT(all.back().estimated_us, 1.5 * all[0].estimated_us) << "else there is nothing to test";
  CandidateOptions any_number;
  any_number.most = SIZE_MAX;
  const auto near = list_candidates(optimized, target, {}, any_number);
  EXPECT_LT(near.size(), all.size());
  for (const TunedCandidate& each : near)
    EXPECT_LE(each.estimated_us, 1.5 * near[0].estimated_us) << each.choices.to_string();
  CandidateOptions few = everything();
  few.most = 4;
  const auto four = list_candidates(optimized, target, {}, few);
  ASSERT_EQ(four.size(), 4u);
  EXPECT_TRUE(four[0].choices.empty());
  few = everything();
  int looks = 0;
  few.enough = [&looks] { return ++looks > 3; };
  EXPECT_LE(list_candidates(optimized, target, {}, few).size(), 4u);
}

// W3: another order of sums is opt-in, and with fast_math no matter
TEST(CandidatesTest, OtherOrdersAreOptIn) {
  const Target target = tiny_target(Isa::avx2);
  const Lowered optimized = optimize(lower(product(40, 600, 50)));
  const auto order = [](const TunedCandidate& each) { return each.same_order; };
  const auto usual = list_candidates(optimized, target, {}, everything());
  EXPECT_TRUE(std::ranges::all_of(usual, order));
  CandidateOptions options = everything();
  options.reassociate = true;
  const auto more = list_candidates(optimized, target, {}, options);
  EXPECT_GT(more.size(), usual.size());
  EXPECT_FALSE(std::ranges::all_of(more, order));
  CompileOptions fast;
  fast.fast_math = true;
  const auto free = list_candidates(optimized, target, fast, everything());
  EXPECT_EQ(free.size(), more.size());
  EXPECT_TRUE(std::ranges::all_of(free, order));
}

// W3: what the program asks of its schedule itself holds in all candidates
TEST(CandidatesTest, KeepWhatIsAskedFor) {
  const Target target = tiny_target(Isa::avx2);
  const Lowered optimized = optimize(lower(product(40, 60, 50)));
  CompileOptions asked;
  asked.contraction_tile = ContractionTile{3, 1};
  for (const TunedCandidate& each : list_candidates(optimized, target, asked, everything()))
    EXPECT_FALSE(each.choices.tile) << each.choices.to_string();
  asked = {};
  asked.schedule_without = {ScheduleStep::contraction, ScheduleStep::reduction};
  for (const TunedCandidate& each : list_candidates(optimized, target, asked, everything())) {
    const Loop loop = schedule(optimized, target, asked.schedule_without, {}, each.choices).loop;
    EXPECT_EQ(print(loop).find("contraction"), std::string::npos) << each.choices.to_string();
  }
}

// W3: with nothing to choose there is the model's choice alone
TEST(CandidatesTest, OfNothingToChooseAreOne) {
  const Tensor x("x", f32, {}), y("y", f32, {});
  Program program("scalar");
  program << (y() = x() + 1);
  EXPECT_EQ(
      list_candidates(optimize(lower(program)), tiny_target(Isa::avx2), {}, everything()).size(),
      1u);
  Target none = tiny_target(Isa::avx2);
  none.isa = Isa::none;
  EXPECT_EQ(list_candidates(optimize(lower(product(9, 9, 9))), none, {}, everything()).size(), 1u);
}

// W3: the estimate tells tiles that leave registers idle, and loops that are no vectors
TEST(EstimateTest, TellsGoodFromBad) {
  const Target target = with_isa(Target{}, Isa::avx2);
  const Lowered optimized = optimize(lower(product(64, 256, 64)));
  const auto of = [&](const ScheduleChoices& choices) {
    return estimated_us(scheduled_as(optimized, target, choices), target);
  };
  const double model = of({});
  EXPECT_GT(of({.tile = ScheduleChoices::Tile{1, 1}}), 2 * model);
  EXPECT_GT(estimated_us(optimized.loop, target), 4 * model);
  const double twice =
      estimated_us(scheduled_as(optimize(lower(product(64, 512, 64))), target, {}), target);
  EXPECT_GT(twice, 1.7 * model);
  EXPECT_LT(twice, 2.5 * model);
}

// W3: a chosen tile leaves long sums cut as they were
TEST(ChoicesTest, TilesKeepCutsOfLongSums) {
  const Target target = tiny_target(Isa::avx2);
  const Lowered optimized = optimize(lower(product(40, 600, 50)));
  const auto orders = sum_orders(scheduled_as(optimized, target, {}));
  ASSERT_EQ(orders.size(), 1u);
  EXPECT_TRUE(orders[0].ends_with("terms at a time")) << orders[0];
  const Loop tiled = scheduled_as(optimized, target, {.tile = ScheduleChoices::Tile{2, 3}});
  EXPECT_EQ(sum_orders(tiled), orders);
  EXPECT_NE(print(tiled).find("contraction: tiles of 2 x 24"), std::string::npos) << print(tiled);
  for (const bool turned : {false, true}) {
    const Loop whole = scheduled_as(optimized, target, {.terms = 0, .turned = turned});
    const std::string order = turned ? "products, then the start" : "products";
    EXPECT_EQ(sum_orders(whole), std::vector{order}) << print(whole);
    EXPECT_EQ(print(whole).find("turned to be stored") != std::string::npos, turned);
  }
  const Loop plain =
      scheduled_as(optimized, target, {.turned = false, .pack_a = false, .pack_b = false});
  EXPECT_EQ(print(plain).find("packed"), std::string::npos) << print(plain);
}

}  // namespace
}  // namespace heddle::jit::testing
