// Random programs on several devices that check their order, against the closure of all orders that
// they give: what is not in it is told, and nothing else is. HEDDLE_TEST_SEED=N runs from that seed
// on, HEDDLE_TEST_SEEDS=N so many of them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tests/support/seeds.hpp"
#include "tests/unit/runtime/order_machine.hpp"

namespace heddle {
namespace {

using testing::Contains;
using testing::IsEmpty;

/// Each seed's program, and a machine of that backend.
template <class Each>
void for_seeds(std::uint64_t usual, const char* backend, const Each& each) {
  const std::uint64_t first = test::from_environment("HEDDLE_TEST_SEED", 0);
  const std::uint64_t count = test::seeds(usual);
  std::optional<OrderMachine> machine;
  for (std::uint64_t k = 0; k < count && !testing::Test::HasFatalFailure(); ++k) {
    if (k % OrderMachine::programs_max == 0) machine.emplace(backend);
    SCOPED_TRACE("HEDDLE_TEST_SEED=" + std::to_string(first + k));
    each(first + k, *machine);
  }
}

/// For who looks at why.
std::string words(const std::vector<MissingOrder>& all) {
  std::string text;
  for (const MissingOrder& each : all) text += each.to_string() + '\n';
  return text;
}

/// All that is told is missing, and what no other one stands for is told.
void expect_told(const std::set<StepPair>& told, const OrderProgram::Expected& expected) {
  ASSERT_TRUE(std::ranges::includes(expected.all, told));
  ASSERT_TRUE(std::ranges::includes(told, expected.told));
}

/// Who it was, from where, and what it touches.
void expect_use(const MissingOrder::Use& use, const OrderMachine& machine, const Step& step,
                std::size_t number) {
  EXPECT_EQ(use.label, OrderMachine::label(step, number));
  EXPECT_EQ(use.device, machine.doer(step));
  EXPECT_EQ(use.ticket == 0, step.is_of_host());
  EXPECT_EQ(use.site.line(), OrderMachine::place(number).line());
  EXPECT_EQ(use.lists_events, step.lists_events());
  const auto touched = [&](const StepBytes& each) {
    return each.writes == use.writes && each.begin == use.begin && each.end == use.end;
  };
  ASSERT_TRUE(std::ranges::any_of(step.touches, touched)) << use.to_string();
}

/// Programs of all kinds of work, whole, and with one wait left out that nothing else stands for.
void expect_missing_waits_told(std::uint64_t usual, const char* backend) {
  std::uint64_t programs = 0, planted = 0;
  std::array<std::uint64_t, num_step_kinds> seen{};
  for_seeds(usual, backend, [&](std::uint64_t seed, const OrderMachine& machine) {
    OrderProgram program(seed, {.all = true, .waits_inside = true});
    ASSERT_TRUE(program.expected().all.empty());
    const std::string falsely = words(machine.run(program));
    ASSERT_THAT(falsely, IsEmpty()) << program.to_string();
    ++programs;
    const auto missing = program.plant_one();
    if (!missing) return;
    ++planted;
    const std::vector<MissingOrder> all = machine.run(program);
    const std::set<StepPair> told = OrderMachine::pairs(all);
    ASSERT_THAT(told, Contains(*missing)) << program.to_string() << words(all);
    expect_told(told, program.expected());
    for (const MissingOrder& each : all) {
      const auto [before, after] = OrderMachine::pair(each);
      expect_use(each.before, machine, program.steps[before], before);
      expect_use(each.after, machine, program.steps[after], after);
    }
    for (const std::size_t k : {missing->first, missing->second})
      ++seen[static_cast<std::size_t>(program.steps[k].kind)];
  });
  if (programs < 200) return;
  EXPECT_GT(planted, programs * 8 / 10);
  for (std::size_t k = 0; k < num_step_kinds; ++k) EXPECT_GT(seen[k], 0U) << "kind " << k;
}

// D9: check tells of each wait that is missing, whatever kinds of work it lies between, by both of
// them, and of none where none is missing
TEST(RandomOrderTest, EachMissingWaitIsTold) { expect_missing_waits_told(1000, "sync_cc"); }

// D9: so it does of devices that have threads
TEST(RandomOrderTest, EachMissingWaitIsToldOfThreads) { expect_missing_waits_told(300, "cc"); }

// D9: and of devices that share some
TEST(RandomOrderTest, EachMissingWaitIsToldOfAPool) { expect_missing_waits_told(200, "pooled_cc"); }

// D9: check tells of all orders that random programs lack, and of no others, where they lack many
TEST(RandomOrderTest, ToldIsWhatIsMissing) {
  std::uint64_t programs = 0, planted = 0, missing = 0;
  for_seeds(10'000, "sync_cc", [&](std::uint64_t seed, const OrderMachine& machine) {
    OrderProgram program(seed, {.all = seed % 2 == 0, .waits_inside = true});
    ASSERT_TRUE(program.expected().all.empty());
    ASSERT_THAT(machine.told(program), IsEmpty());
    planted += program.plant();
    const OrderProgram::Expected expected = program.expected();
    expect_told(machine.told(program), expected);
    missing += expected.told.size();
    ++programs;
  });
  EXPECT_GE(planted, programs / 2);
  EXPECT_GE(missing, programs / 2);
}

// D9: what is told does not depend on when tasks end, or on who runs them
TEST(RandomOrderTest, TimingChangesNothing) {
  std::optional<OrderMachine> threads, pool;
  std::uint64_t k = 0;
  for_seeds(500, "sync_cc", [&](std::uint64_t seed, const OrderMachine& inline_ones) {
    if (k++ % OrderMachine::programs_max == 0) {
      threads.emplace("cc");
      pool.emplace("pooled_cc");
    }
    OrderProgram program(seed, {.all = false, .waits_inside = false});
    program.plant();
    const std::set<StepPair> told = inline_ones.told(program);
    ASSERT_EQ(threads->told(program), told);
    ASSERT_EQ(pool->told(program), told);
  });
}

// D9: nor is anything told falsely where tasks come to know of others while they run
TEST(RandomOrderTest, WaitsInsideTasksCount) {
  for_seeds(500, "cc", [&](std::uint64_t seed, const OrderMachine& threads) {
    OrderProgram program(seed, {.all = false, .waits_inside = true});
    ASSERT_THAT(threads.told(program), IsEmpty());
    program.plant();
    expect_told(threads.told(program), program.expected());
  });
}

}  // namespace
}  // namespace heddle
