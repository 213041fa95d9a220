// Which processors help which device of a backend.
#include "runtime/device/teams.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>

#include "heddle/heddle.hpp"
#include "heddle/simulation.hpp"
#include "tests/support/before_long.hpp"
#include "tests/support/failure.hpp"

namespace heddle::rt {
namespace {

using testing::AllOf;
using testing::HasSubstr;

/// The devices that have a helper now, or soon: "02".
bool have_helpers(const std::shared_ptr<Teams>& teams, std::uint32_t devices,
                  const std::string& wanted) {
  std::string found;
  return test::before_long([&] {
    found.clear();
    for (std::uint32_t k = 0; k < devices; ++k) {
      if (Teams::helpers_of(teams, k)->team().has_helpers()) found += std::to_string(k);
    }
    return found == wanted;
  });
}

// D1: processors on which no virtual device is open are lent; who opens one there has it back
TEST(TeamsTest, FreeProcessorsAreLent) {
  const auto teams = std::make_shared<Teams>(TeamsOptions{.name = "lent", .devices = 3});
  Teams::Seat first(teams, 0);
  EXPECT_TRUE(have_helpers(teams, 3, "")) << "there was nothing to do";
  Teams::helpers_of(teams, 1)->start();
  EXPECT_TRUE(have_helpers(teams, 3, "0"));
  {
    const Teams::Seat third(teams, 2), again(teams, 2);
    EXPECT_TRUE(have_helpers(teams, 3, "0"));  // there is one for two, the first gets it
    const Teams::Seat second(teams, 1);
    EXPECT_TRUE(have_helpers(teams, 3, ""));
  }
  EXPECT_TRUE(have_helpers(teams, 3, "0"));
  first.leave();
  first.leave();
  EXPECT_TRUE(have_helpers(teams, 3, ""));
}

BackendOptions wide(int width, sched::Mode mode = sched::Mode::threaded) {
  BackendOptions options{.name = "cc", .mode = mode, .width = width};
  options.oversubscribed = true;
  return options;
}

// S19, D1: every mode has widths, and there are as many fewer physical devices
TEST(WidthsTest, EveryModeHasThem) {
  const int all = Backend::open(wide(1)).num_physical_devices();
  for (const sched::Mode mode :
       {sched::Mode::threaded, sched::Mode::pooled, sched::Mode::inline_, sched::Mode::manual}) {
    for (const int width : {1, 2, 3, 16}) {
      const Backend backend = Backend::open(wide(width, mode));
      EXPECT_EQ(backend.width(), width);
      EXPECT_EQ(backend.num_physical_devices(), (all + width - 1) / width);
    }
  }
  EXPECT_EQ(Backend::open(wide(width_automatic, sched::Mode::manual)).width(), 1);
  EXPECT_EQ(Backend::open(wide(width_automatic, sched::Mode::inline_)).width(), 1);
  BackendOptions pooled = wide(width_automatic, sched::Mode::pooled);
  pooled.scheduling.workers = 3;
  EXPECT_EQ(Backend::open(pooled).width(), width_automatic);
  pooled.scheduling.workers = 1;
  EXPECT_EQ(Backend::open(pooled).width(), 1) << "nobody else is there";
}

// S19: on the host's own scheduler its width counts
TEST(WidthsTest, AreTheHostsSchedulers) {
  const Scheduler three(SchedulerOptions{.width = 3, .oversubscribed = true}),
      one(SchedulerOptions{.width = 1});
  BackendOptions options{.name = "cc", .scheduler = three};
  options.oversubscribed = true;
  EXPECT_EQ(Backend::open(options).width(), width_automatic);
  options.width = 3;
  EXPECT_EQ(Backend::open(options).width(), 3);
  options.width = 1;
  EXPECT_EQ(Backend::open(options).width(), 1);
  options.width = 2;
  EXPECT_THAT(failure([&] { static_cast<void>(Backend::open(options)); }).to_string(),
              AllOf(HasSubstr("invalid_argument"), HasSubstr("BackendOptions::width is 2"),
                    HasSubstr("runs parts on up to 3 threads")));
  options.mode = sched::Mode::manual;
  EXPECT_EQ(Backend::open(options).width(), 2) << "no thread runs them";
  options.width = {};
  EXPECT_EQ(Backend::open(options).width(), 1);
  options.scheduler = one;
  options.mode = {};
  EXPECT_EQ(Backend::open(options).width(), 1);
}

// S18, S19: simulated devices have the simulation's width, or one of their own
TEST(WidthsTest, AreTheSimulations) {
  SimulationOptions wanted;
  wanted.faults.fill(false);
  wanted.width = 3;
  Simulation simulation(wanted);
  BackendOptions options{.name = "cc", .scheduler = simulation.scheduler()};
  options.oversubscribed = true;
  EXPECT_EQ(Backend::open(options).width(), width_automatic);
  options.width = 7;
  EXPECT_EQ(Backend::open(options).width(), 7);
}

}  // namespace
}  // namespace heddle::rt
