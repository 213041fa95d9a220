// Machine profiles: what follows from their values, and how those are measured.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "heddle/scheduler.hpp"
#include "heddle/status.hpp"
#include "jit/machine/measure.hpp"
#include "jit/machine/probes.hpp"
#include "jit/machine/profile.hpp"

namespace heddle::jit {
namespace {

using std::chrono::nanoseconds;

// W2: without a profile, schedules and the scheduler have the constants that they always had
TEST(MachineProfileTest, UsualOnesChangeNothing) {
  EXPECT_EQ(kernels_on(MachineProfile()), KernelProfile());
  EXPECT_EQ(scheduling_on(MachineProfile()), SchedulerProfile());
  EXPECT_EQ(usual_profile(Isa::avx512), MachineProfile());
  for (const Isa isa : {Isa::none, Isa::portable, Isa::avx2}) {
    EXPECT_EQ(kernels_on(usual_profile(isa)), KernelProfile());
    EXPECT_EQ(scheduling_on(usual_profile(isa)), SchedulerProfile());
    EXPECT_LT(usual_profile(isa).peak_mflop_s, usual_profile(Isa::avx512).peak_mflop_s);
  }
}

/// A constant at each of many values of what it follows from, ascending.
template <class Constant>
std::vector<std::int64_t> followed(std::int64_t MachineProfile::* value, const Constant& constant) {
  std::vector<std::int64_t> found;
  for (std::int64_t at = 1; at <= machine_ns_most; at += 1 + at / 7) {
    MachineProfile machine;
    machine.*value = at;
    check(machine);
    check(kernels_on(machine));
    found.push_back(constant(machine));
  }
  return found;
}

// W2: each constant grows with what it makes up for, and stays within bounds
TEST(MachineProfileTest, ConstantsFollow) {
  const auto expect_grows = [](const std::vector<std::int64_t>& found, std::int64_t least,
                               std::int64_t most) {
    EXPECT_TRUE(std::ranges::is_sorted(found));
    EXPECT_EQ(found.front(), least);
    EXPECT_EQ(found.back(), most);
  };
  const auto terms = [](const MachineProfile& of) { return kernels_on(of).terms_ahead; };
  const auto lines = [](const MachineProfile& of) { return kernels_on(of).lines_ahead; };
  const auto part = [](const MachineProfile& of) { return kernels_on(of).part_bytes; };
  const auto slots = [](const MachineProfile& of) {
    return std::int64_t{scheduling_on(of).slots_ahead};
  };
  expect_grows(followed(&MachineProfile::memory_load_ns, terms), 4, 64);
  expect_grows(followed(&MachineProfile::memory_load_ns, lines), 4, 64);
  expect_grows(followed(&MachineProfile::memory_copy_mb_s, lines), 4, 64);
  expect_grows(followed(&MachineProfile::part_ns, part), 16 << 10, 2 << 20);
  expect_grows(followed(&MachineProfile::l3_copy_mb_s, part), 16 << 10, 2 << 20);
  expect_grows(followed(&MachineProfile::line_transfer_ns, slots), 1, 8);
}

// W2: measuring again, with values that agree, seldom makes other kernels
TEST(MachineProfileTest, SmallDifferencesMakeNoOtherKernels) {
  MachineProfile machine;
  for (const MachineValue& each : machine_values) machine.*each.value += machine.*each.value / 10;
  EXPECT_EQ(kernels_on(machine), KernelProfile());
}

// Bad input: what no machine has is refused by name.
TEST(MachineProfileTest, NonsenseIsRefused) {
  check(MachineProfile());
  MachineProfile machine;
  machine.part_ns = 0;
  try {
    check(machine);
    ADD_FAILURE();
  } catch (const Error& e) {
    EXPECT_EQ(e.status().code(), ErrorCode::invalid_argument);
    EXPECT_THAT(e.what(), testing::HasSubstr("machine.part_ns is 0 (expected 1 to 1000000000)"));
  }
  machine.part_ns = machine_ns_most + 1;
  EXPECT_THROW(check(machine), Error);
}

/// Measures with these repetitions of each value, one after the other and then the first again;
/// each takes 10 ms. Values without any are measured as 7.
class Stub {
 public:
  using Repetitions = std::map<std::string, std::vector<double>>;
  explicit Stub(Repetitions repetitions) : repetitions_(std::move(repetitions)) {}
  [[nodiscard]] MeasuredMachine measure() {
    return measure_machine(
        [this](const MachineValue& value) -> std::optional<double> {
          now_ += std::chrono::milliseconds(10);
          const auto at = repetitions_.find(value.name);
          if (at == repetitions_.end()) return 7;
          if (at->second.empty()) return std::nullopt;
          return at->second[asked_[value.name]++ % at->second.size()];
        },
        [this] { return now_; });
  }
  [[nodiscard]] nanoseconds passed() const { return now_; }

 private:
  Repetitions repetitions_;
  std::map<std::string, std::size_t> asked_;
  nanoseconds now_{0};
};

const MeasuredValue& value_called(const MeasuredMachine& machine, const std::string& name) {
  for (const MeasuredValue& each : machine.values) {
    if (each.value->name == name) return each;
  }
  throw std::out_of_range(name);
}

// W2: three repetitions that agree are enough, and the one in the middle counts
TEST(MeasureTest, TakesTheMiddleOfThreeThatAgree) {
  Stub stub({{"part_ns", {1'100, 1'000, 1'200}}});
  const MeasuredMachine machine = stub.measure();
  EXPECT_TRUE(machine.agrees());
  ASSERT_EQ(machine.values.size(), std::size(machine_values));
  for (const MeasuredValue& each : machine.values) EXPECT_EQ(each.repetitions.size(), 3u);
  EXPECT_EQ(value_called(machine, "part_ns").middle(), 1'100);
  EXPECT_NEAR(value_called(machine, "part_ns").spread(), 0.18, 0.01);
  const MachineProfile profile = machine.profile(MachineProfile());
  EXPECT_EQ(profile.part_ns, 1'100);
  EXPECT_EQ(profile.memory_load_ns, 7);
}

// W2: what was disturbed for a while is measured again, and nothing else is
TEST(MeasureTest, RepeatsWhatDisagrees) {
  Stub stub({{"part_ns", {5'000, 2'000, 1'000, 1'010, 1'020}}});
  const MeasuredMachine machine = stub.measure();
  EXPECT_TRUE(machine.agrees());
  EXPECT_EQ(value_called(machine, "part_ns").repetitions.size(), 5u);
  EXPECT_EQ(value_called(machine, "part_ns").middle(), 1'010);
  EXPECT_EQ(value_called(machine, "memory_load_ns").repetitions.size(), 3u);
}

// W2: repetitions that never agree end the measuring in time, and are told from the others
TEST(MeasureTest, GivesUpInTime) {
  Stub stub({{"l3_copy_mb_s", {10'000, 13'000}}});
  const MeasuredMachine machine = stub.measure();
  EXPECT_FALSE(machine.agrees());
  for (const MeasuredValue& each : machine.values)
    EXPECT_EQ(each.agrees(), each.value->name != std::string("l3_copy_mb_s")) << each.value->name;
  EXPECT_GE(stub.passed(), measuring_time_max);
  EXPECT_LE(stub.passed(), measuring_time_max + std::chrono::milliseconds(10));
  Stub::Repetitions all;
  for (const MachineValue& each : machine_values) all[each.name] = {1, 2};
  Stub none(all);
  EXPECT_FALSE(none.measure().agrees());
  EXPECT_LE(none.passed(), measuring_time_max + std::chrono::milliseconds(10));
}

// W2: nor does what could not be measured now, however often
TEST(MeasureTest, WhatIsInfiniteDoesNotAgree) {
  Stub stub({{"part_ns", {std::numeric_limits<double>::infinity()}}});
  EXPECT_FALSE(stub.measure().agrees());
}

// W2: what takes two processors, and there is one, stays as it usually is
TEST(MeasureTest, WhatIsAbsentIsAsUsual) {
  Stub stub({{"part_ns", {}}, {"line_transfer_ns", {}}});
  const MeasuredMachine machine = stub.measure();
  EXPECT_TRUE(machine.agrees());
  EXPECT_TRUE(value_called(machine, "part_ns").absent());
  EXPECT_EQ(machine.profile(MachineProfile()).part_ns, MachineProfile().part_ns);
}

// W2: a profile is one that backends take, whatever was measured
TEST(MeasureTest, ValuesStayWithinBounds) {
  Stub stub({{"line_transfer_ns", {0.2}}, {"peak_mflop_s", {1e18}}});
  const MachineProfile profile = stub.measure().profile(MachineProfile());
  check(profile);
  EXPECT_EQ(profile.line_transfer_ns, 1);
  EXPECT_EQ(profile.peak_mflop_s, machine_rate_most);
}

// W2: each value can be measured; those of two processors where there are two
TEST(ProbesTest, MeasureEachValue) {
  Target small;
  small.l2_bytes = 64 << 10;
  small.l3_bytes = 1 << 20;
  MachineProbes probes(small);
  for (const MachineValue& each : machine_values) {
    const std::optional<double> found = probes(each);
    const bool two = each.value == &MachineProfile::all_copy_mb_s ||
                     each.value == &MachineProfile::line_transfer_ns ||
                     each.value == &MachineProfile::part_ns;
    EXPECT_EQ(found.has_value(), !two || available_processors() > 1) << each.name;
    EXPECT_TRUE(!found || *found > 0) << each.name;
    EXPECT_TRUE(two || std::isfinite(*found)) << each.name;
  }
}

}  // namespace
}  // namespace heddle::jit
