// The bounds that the fuzzer compares reordered sums with: sound, and tight enough to tell.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <span>
#include <vector>

#include "support/error_bounds.hpp"

namespace heddle::jit::testing {
namespace {

float sum_in_order(std::span<const float> terms) {
  float sum = 0;
  for (const float term : terms) sum += term;
  return sum;
}

/// Halves are summed first.
float sum_in_pairs(std::span<const float> terms) {
  if (terms.size() == 1) return terms[0];
  const std::size_t half = terms.size() / 2;
  return sum_in_pairs(terms.first(half)) + sum_in_pairs(terms.subspan(half));
}

/// As a loop x = x + term says: the sum, and how far those of other orders may be from it.
Bounded bounded_sum(std::span<const float> terms) {
  Bounded sum{Scalar::of_float(f32, 0), 0};
  Accumulated accumulated;
  accumulated.set(sum);
  for (const float term : terms) {
    const Bounded added{Scalar::of_float(f32, term), 0};
    const Scalar made = Scalar::of_float(f32, static_cast<float>(sum.value.f) + term);
    sum.error = accumulated.step(Op::add, made, sum, added);
    sum.value = made;
  }
  return sum;
}

/// Terms of sizes far and near, of both signs; the last term of every third sum takes most of it
/// away.
std::vector<float> random_terms(std::mt19937& random, std::size_t count) {
  std::uniform_real_distribution<float> significand(-1, 1);
  std::uniform_int_distribution<int> exponent(-20, 20);
  const bool is_even = random() % 2 == 0;
  std::vector<float> terms(count);
  for (float& term : terms) term = std::ldexp(significand(random), is_even ? 0 : exponent(random));
  if (random() % 3 == 0) terms.back() -= sum_in_order(terms);
  return terms;
}

// B3: no order of the terms leaves the bound, and neither does the exact sum
TEST(ErrorBoundsTest, HoldForEveryOrder) {
  std::mt19937 random(1);
  int moved = 0;
  for (int round = 0; round < 2000; ++round) {
    std::vector<float> terms = random_terms(random, 2 + random() % 5);
    const Bounded told = bounded_sum(terms);
    long double exact = 0;
    for (const float term : terms) exact += static_cast<long double>(term);
    const auto near = [&](long double other) {
      return std::fabs(other - static_cast<long double>(told.value.f)) <=
             static_cast<long double>(told.error);
    };
    ASSERT_TRUE(near(exact)) << "round " << round;
    std::ranges::sort(terms);
    do {
      const float one = sum_in_order(terms), other = sum_in_pairs(terms);
      moved +=
          static_cast<double>(one) != told.value.f || static_cast<double>(other) != told.value.f;
      ASSERT_TRUE(near(one) && near(other)) << "round " << round;
    } while (std::ranges::next_permutation(terms).found);
  }
  EXPECT_GT(moved, 1000) << "orders make no difference";
}

// B3: a term that is a little off leaves the bound, so a wrong one is noticed
TEST(ErrorBoundsTest, TellWrongTerms) {
  std::mt19937 random(2);
  for (int round = 0; round < 2000; ++round) {
    std::vector<float> terms = random_terms(random, 2 + random() % 5);
    const Bounded told = bounded_sum(terms);
    const auto largest =
        std::ranges::max_element(terms, {}, [](float term) { return std::fabs(term); });
    *largest *= 1 + 0x1p-12F;
    const double wrong = sum_in_order(terms);
    ASSERT_GT(std::fabs(wrong - told.value.f), told.error) << "round " << round;
  }
}

}  // namespace
}  // namespace heddle::jit::testing
