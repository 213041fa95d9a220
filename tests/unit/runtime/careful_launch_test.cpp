// Launches that lie in the queue as operations: with a trace, a merge buffer, many static indices,
// or on a device whose queue runs ahead.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "heddle/heddle.hpp"
#include "tests/support/asynchronous_device.hpp"
#include "tests/support/failure.hpp"
#include "tests/unit/runtime/launch_cost.hpp"

namespace heddle {
namespace {

using testing::HasSubstr;

BackendOptions options_for(std::string_view way) {
  [[maybe_unused]] static const bool registered = [] {
    register_asynchronous("ahead");
    return true;
  }();
  BackendOptions options;
  options.name = way == "ahead" ? "ahead" : "cc";
  return options;
}

/// A routine that adds to a tensor each time it is scheduled.
class Adding {
 public:
  Adding(std::string_view the_way, const BackendOptions& options)
      : way(the_way),
        backend(Backend::open(options)),
        device(backend.physical_device(0).new_virtual_device()),
        routine(Context(device).link(backend.compile(program(), {.trace_values = traced()}))),
        source(Context(device).link(backend.compile(filling()))) {
    source.schedule();
    trace.trace = [](const TracedValue&) {};
    for (const StaticIndex& at : statics) bindings.push_back({at, 1});
    device.await();
  }
  Event schedule() const {
    if (way == "copied") return merge(routine, source.context(), MergeMode::copy);
    if (way == "streamed") return merge(routine, source.context(), MergeMode::stream);
    return routine.schedule(bindings, traced() ? trace : ScheduleOptions());
  }

  const std::string way;
  const Tensor x{"x", f32, {2, 2, 2, 2, 2, 2}};
  const std::vector<StaticIndex> statics = six();
  const Backend backend;
  const Device device;
  const Routine routine;
  const Routine source;  // makes what is merged

 private:
  [[nodiscard]] bool traced() const { return way == "traced"; }
  [[nodiscard]] std::vector<StaticIndex> six() const {
    std::vector<StaticIndex> made;
    for (int k = 0; way == "six_statics" && k < 6; ++k) made.emplace_back("s" + std::to_string(k));
    return made;
  }
  [[nodiscard]] Access everywhere(std::vector<Subscript> at = {}) const {
    while (at.size() < 6) at.emplace_back(Index());
    return x.at(at);
  }
  [[nodiscard]] Program program() const {
    Program p("add");
    const Access at = everywhere({statics.begin(), statics.end()});
    if (way == "copied" || way == "streamed") {
      p << (at += heddle::merge(x).at(at.subscripts()));
    } else {
      p << (at += 1.0);
    }
    return p;
  }
  [[nodiscard]] Program filling() const {
    Program p("fill");
    p << (everywhere() = Expr(1.0));
    return p;
  }

  ScheduleOptions trace;
  Bindings bindings;
};

class CarefulLaunchTest : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Ways, CarefulLaunchTest,
                         testing::Values("traced", "copied", "streamed", "six_statics", "ahead"),
                         [](const auto& way) { return std::string(way.param); });

// D16: launches that end leave their memory to those that follow: neither the thread that schedules
// nor the worker takes any, but for what the queue of a device that runs ahead takes itself
TEST_P(CarefulLaunchTest, TakesNoMemoryInTime) {
  const Adding adding(GetParam(), options_for(GetParam()));
  const auto row = [&] {
    return cost_of(adding.device, [&] {
      for (int k = 0; k < 100; ++k) static_cast<void>(adding.schedule());
    });
  };
  // As many at once as a row has at most, and what else is kept.
  sched::ExternalTimeline gate("gate");
  const Event open = gate.next();
  adding.device.wait(open);
  for (int k = 0; k < 110; ++k) adding.schedule();
  EXPECT_TRUE(gate.signal(open.ticket(), {}).ok());
  adding.device.await();
  const std::vector<std::uint64_t> cost = row();
  EXPECT_EQ(cost[0], 0u) << "the thread that schedules";
  if (adding.way != "ahead") {
    EXPECT_EQ(cost[1], 0u) << "the worker";
  }
  EXPECT_EQ(adding.device.statistics().launches, 211u);  // and the source
}

// D13: a launch that waits for room is refused where its context is finalised meanwhile
TEST_P(CarefulLaunchTest, IsRefusedOnceItsContextWasFinalised) {
  BackendOptions options = options_for(GetParam());
  options.mode = sched::Mode::manual;  // a wait for room makes it
  options.scheduling.device.queue_size = 4;
  const Adding adding(GetParam(), options);
  EXPECT_TRUE(adding.schedule().wait().ok());
  adding.device.submit("finalise", [&] { adding.routine.context().finalize(); });
  const sched::SubmitOptions if_room{.full = sched::FullPolicy::fail};
  while (adding.device.timeline().submit("fill", [] {}, if_room).accepted()) {
  }
  const std::uint64_t before = adding.device.statistics().launches;
  const Status refused = failure([&] { adding.schedule(); });
  EXPECT_EQ(refused.code(), ErrorCode::failed_precondition);
  EXPECT_THAT(refused.to_string(), HasSubstr("was finalised"));
  adding.device.await();
  EXPECT_EQ(adding.device.statistics().launches, before);
}

}  // namespace
}  // namespace heddle
