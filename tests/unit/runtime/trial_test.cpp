// Codes of one program beside each other: what is the same, and what is told apart.
#include <gtest/gtest.h>

#include <vector>

#include "heddle/heddle.hpp"
#include "runtime/tune/programs.hpp"
#include "runtime/tune/trial.hpp"

namespace heddle {
namespace {

/// Codes that write y, of one element for each of x.
class TrialTest : public testing::Test {
 protected:
  [[nodiscard]] Code made(const Expr& value) const {
    Program program("trial");
    program << (y_(i_) = value);
    return backend_.compile(program);
  }
  const Backend backend_ = Backend::open("sync_cc");
  const Tensor x_{"x", f32, {16}}, y_{"y", f32, {16}};
  const Index i_;
};

// W3: results are compared bit for bit, or within what another order of sums may do
TEST_F(TrialTest, ResultsAreCompared) {
  rt::Trial trial(backend_.physical_device(0).new_virtual_device(), made(x_(i_) + x_(i_)), {});
  EXPECT_EQ(trial.add(made(2 * x_(i_)), true), TuneVerdict::measured);
  const Code near = made(x_(i_) * 2.000001);
  EXPECT_EQ(trial.add(near, true), TuneVerdict::different);
  EXPECT_EQ(trial.add(near, false), TuneVerdict::measured);
  EXPECT_EQ(trial.add(made(x_(i_) * 2.1), false), TuneVerdict::different);
  EXPECT_EQ(trial.add(made(x_(i_) / 0), false), TuneVerdict::different);
  trial.run(0, 3);
  trial.run(2, 1);
}

// W3: each begins with the same contents, whatever the one before left
TEST_F(TrialTest, ContentsAreTheSame) {
  rt::Trial trial(backend_.physical_device(0).new_virtual_device(), made(y_(i_) + x_(i_)), {});
  EXPECT_EQ(trial.add(made(x_(i_) + y_(i_)), true), TuneVerdict::measured);
  trial.run(0, 5);
  EXPECT_EQ(trial.add(made(x_(i_) + y_(i_)), true), TuneVerdict::measured);
}

// W3: NaN are equal, and the signs of zeros are not
TEST_F(TrialTest, NumbersAreComparedByTheirBits) {
  const auto first = [&](const Expr& value) {
    return rt::Trial(backend_.physical_device(0).new_virtual_device(), made(value), {});
  };
  EXPECT_EQ(first(x_(i_) * 0).add(made(x_(i_) * -0.0), true), TuneVerdict::different);
  EXPECT_EQ(first((x_(i_) - x_(i_)) / 0).add(made(-(x_(i_) - x_(i_)) / 0), true),
            TuneVerdict::measured);
}

// W3: what cannot run is told apart, and the others go on
TEST_F(TrialTest, FailuresAreTold) {
  rt::Trial trial(backend_.physical_device(0).new_virtual_device(), made(x_(i_)), {});
  const Tensor g("g", f32, {16});
  Program other("other");
  other << (y_(i_) = merge(g)(i_));  // which nobody loaded
  EXPECT_EQ(trial.add(backend_.compile(other), true), TuneVerdict::failed);
  EXPECT_EQ(trial.add(made(x_(i_) * 1), true), TuneVerdict::measured);
}

// W3: static indices, merge buffers and host storage are as programs have them
TEST(TrialProgramsTest, RunWithAllThatTheyNeed) {
  const Backend backend = Backend::open("sync_cc");
  const Tensor x("x", f32, {4, 8}), g("g", f32, {8}), y("y", i32, {8});
  const Tensor w("w", f32, {8});
  w.set_host(HostArray::fill({f32, {8}}, std::vector<double>{3, 4}));
  const StaticIndex row("row", 4);
  const Index i;
  Program program("all");
  program << (y(i) += cast(x(row, i) + w(i) + merge(g)(i), i32));
  const Code code = backend.compile(program);
  rt::Trial trial(backend.physical_device(0).new_virtual_device(), code, {});
  EXPECT_EQ(trial.add(backend.compile(program, {.schedule = Schedule::off}), true),
            TuneVerdict::measured);
  trial.run(1, 2);
}

// W3: half of a timeout is for the compile, however short it is; a budget that is shorter stays
TEST(WhileMeasuringTest, HalfOfATimeoutIsLeft) {
  using namespace std::chrono_literals;
  CompileOptions options;
  options.tune.budget = 10s;
  EXPECT_EQ(rt::while_measuring(options).tune.budget, 10s);
  EXPECT_FALSE(rt::while_measuring(options).timeout);
  options.timeout = 3s;
  EXPECT_EQ(rt::while_measuring(options).tune.budget, 1500ms);
  EXPECT_EQ(rt::while_measuring(options).timeout, std::optional<std::chrono::nanoseconds>(1500ms));
  options.timeout = 60s;
  EXPECT_EQ(rt::while_measuring(options).tune.budget, 10s);
  options.timeout = 1ns;
  EXPECT_EQ(rt::while_measuring(options).tune.budget, 1ns);
  options.timeout = -5s;
  EXPECT_EQ(rt::while_measuring(options).tune.budget, 1ns);
}

}  // namespace
}  // namespace heddle
