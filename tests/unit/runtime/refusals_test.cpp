// Refusals of the runtime that no other test asks for, each by what it says.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "devices/device.hpp"
#include "heddle/heddle.hpp"
#include "tests/support/failure.hpp"

namespace heddle {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::Each;
using testing::HasSubstr;

Program adds_one(const Tensor& x) {
  Index i;
  Program p("inc");
  p << (x(i) += 1.0);
  return p;
}

void expect_refused(const Status& status, ErrorCode code,
                    const testing::Matcher<std::string>& text) {
  EXPECT_EQ(status.code(), code) << status.to_string();
  EXPECT_THAT(status.to_string(), text);
}

template <class Call>
void expect_refusal(ErrorCode code, const testing::Matcher<std::string>& text, const Call& call) {
  expect_refused(failure(call), code, text);
}

// J8, bad input
TEST(RefusalsTest, BatchesTakeANameForEachProgram) {
  const Backend backend = Backend::open("null");
  const std::vector<Program> programs{adds_one(Tensor("a", f32, {4})),
                                      adds_one(Tensor("b", f32, {4}))};
  BatchOptions options;
  options.names = {"one"};
  expect_refusal(ErrorCode::invalid_argument, AllOf(HasSubstr("2 programs"), HasSubstr("1 names")),
                 [&] { static_cast<void>(backend.compile_batch(programs, options)); });
  options = {.each = {.name = "all"}};
  expect_refusal(ErrorCode::invalid_argument,
                 AllOf(HasSubstr("'all'"), HasSubstr("BatchOptions::names")),
                 [&] { static_cast<void>(backend.compile_batch(programs, options)); });
}

// B1, bad input
TEST(RefusalsTest, BackendsHaveAVirtualDeviceAtLeast) {
  BackendOptions options;
  options.name = "cc";
  options.virtual_devices = 0;
  expect_refusal(ErrorCode::invalid_argument,
                 AllOf(HasSubstr("BackendOptions::virtual_devices"), HasSubstr("is 0")),
                 [&] { static_cast<void>(Backend::open(options)); });
}

// B5
TEST(RefusalsTest, ABackendWithoutDevicesIsUnavailable) {
  register_backend({"hollow", "null", sched::Mode::threaded,
                    [] { return std::vector<std::shared_ptr<dev::PhysicalDevice>>(); }});
  expect_refusal(ErrorCode::unavailable, AllOf(HasSubstr("'hollow'"), HasSubstr("no devices")),
                 [] { static_cast<void>(Backend::open("hollow")); });
}

// D13: also of batches
TEST(RefusalsTest, AFinalisedBackendCompilesNoBatches) {
  const Backend backend = Backend::open("null");
  backend.finalize();
  const std::vector<Program> programs{adds_one(Tensor("a", f32, {4}))};
  const auto finalised = AllOf(HasSubstr("'null'"), HasSubstr("finalised"));
  expect_refusal(ErrorCode::failed_precondition, finalised,
                 [&] { static_cast<void>(backend.compile_batch(programs)); });
  expect_refusal(ErrorCode::failed_precondition, finalised,
                 [&] { static_cast<void>(backend.compile_batch_async(programs)); });
}

// D13, S10: that it is finalised comes before what failed on it
TEST(RefusalsTest, AFinalisedDeviceSaysSoThoughItFailedToo) {
  const Backend backend = Backend::open("cc");
  const Device device = backend.physical_device(0).new_virtual_device();
  const Tensor x("x", f32, {4});
  const Routine routine = Context(device).link(backend.compile(adds_one(x)));
  EXPECT_FALSE(device.submit("fails", [] { throw std::runtime_error("earlier"); }).wait().ok());
  static_cast<void>(failure([&] { device.finalize(); }));
  expect_refusal(ErrorCode::failed_precondition, HasSubstr("finalised"),
                 [&] { static_cast<void>(routine.schedule()); });
}

// S10: linking is refused with the failure of the device, also where it submits nothing
TEST(RefusalsTest, FailedDevicesLinkNothing) {
  const Backend backend = Backend::open("cc");
  const Device device = backend.physical_device(0).new_virtual_device();
  const Tensor x("x", f32, {4});
  const Code code = backend.compile(adds_one(x));
  const Context linked = Context(device).link(code).context();
  EXPECT_FALSE(device.submit("fails", [] { throw std::runtime_error("earlier"); }).wait().ok());
  expect_refusal(ErrorCode::device_failed, HasSubstr("earlier"),
                 [&] { static_cast<void>(linked.link(code)); });
}

// S10: calls on a failed device say which of them was refused, what failed, and how it goes on
TEST(RefusalsTest, FailedDevicesNameTheCallAndTheWayOut) {
  const Backend backend = Backend::open("cc");
  const Device device = backend.physical_device(0).new_virtual_device();
  const Tensor x("x", f32, {4});
  const Code code = backend.compile(adds_one(x));
  const Routine routine = Context(device).link(code);
  routine.schedule();
  Recording recording("both");
  recording.schedule(routine);
  const Replay replay = recording.finish();
  EXPECT_FALSE(device.submit("fails", [] { throw std::runtime_error("earlier"); }).wait().ok());
  const auto told = [&](const char* call, const auto& f) {
    expect_refusal(ErrorCode::device_failed,
                   AllOf(HasSubstr(call), HasSubstr(device.name()), HasSubstr("Device::recover()"),
                         HasSubstr("earlier")),
                   f);
  };
  told("'inc'", [&] { routine.schedule(); });
  told("a link of 'inc'", [&] { static_cast<void>(routine.context().link(code)); });
  told("replay 'both'", [&] { replay.run(); });
  told("'from_host'", [&] { routine.context().write(x, std::vector<float>(4)); });
  device.recover();
  EXPECT_TRUE(routine.schedule().wait().ok());
}

// D12: a tensor has one place in related contexts
TEST(RefusalsTest, WithPutsNoTensorIntoAContextThatHasIt) {
  const Backend backend = Backend::open("cc");
  const Device device = backend.physical_device(0).new_virtual_device();
  const Tensor x("x", f32, {4});
  const Context context = Context(device).link(backend.compile(adds_one(x))).context();
  const BufferView other(Buffer::allocate(device, x.type()), x.type());
  expect_refusal(ErrorCode::failed_precondition,
                 AllOf(HasSubstr("'x'"), HasSubstr("already"), HasSubstr("Context(device)")),
                 [&] { static_cast<void>(context.with(x, other)); });
}

// D13: neither copied nor streamed
TEST(RefusalsTest, NothingIsLoadedForAConsumerThatIsFinalised) {
  const Backend backend = Backend::open("cc");
  const Device device = backend.physical_device(0).new_virtual_device();
  const Tensor x("x", f32, {4});
  Index i;
  Program add("add");
  add << (x(i) += merge(x)(i));
  const Context source = Context(device).link(backend.compile(adds_one(x))).context();
  const Routine consumer = Context(device).link(backend.compile(add));
  consumer.context().finalize();
  expect_refusal(ErrorCode::failed_precondition, HasSubstr("finalised"),
                 [&] { static_cast<void>(load_merge(consumer, source, MergeMode::copy)); });
}

// B1, bad input: each part of what a setting may be
TEST(RefusalsTest, SettingsThatAreNoneAreToldByName) {
  const auto refused = [](const char* name, const char* value, const char* expected) {
    ::setenv(name, value, 1);
    expect_refusal(ErrorCode::invalid_argument,
                   AllOf(HasSubstr(name), HasSubstr(value), HasSubstr(expected)),
                   [] { static_cast<void>(Backend::open("null")); });
    ::unsetenv(name);
  };
  refused("HEDDLE_SPIN_NS", "99999999999999999999999", "from 0 to 1000000000");
  refused("HEDDLE_SPIN_NS", "2000000000", "from 0 to 1000000000");
  refused("HEDDLE_SPIN_NS", "-1", "from 0 to 1000000000");
  refused("HEDDLE_SPIN_NS", "5us", "from 0 to 1000000000");
  refused("HEDDLE_PERF_MAP", "perhaps", "on or off");
}

// D3, bad input: a tensor that a device may never have is named with its bytes and the bound, and
// the context is as it was
TEST(RefusalsTest, ATensorAboveBytesMaxIsNamedWithTheBound) {
  BackendOptions options;
  options.name = "cc";
  options.bytes_max = 4096;
  const Backend backend = Backend::open(options);
  const Device device = backend.physical_device(0).new_virtual_device();
  const Tensor small("small", f32, {4}), wide("wide", f32, {1025}), other("other", f32, {4});
  const Routine run = Context(device).link(backend.compile(adds_one(small)));
  run.schedule();
  const Code code = backend.compile(adds_one(wide));
  for (int again = 0; again < 2; ++again) {
    expect_refusal(ErrorCode::exhausted,
                   AllOf(HasSubstr("'wide'"), HasSubstr("4100 bytes"), HasSubstr("4096 bytes"),
                         HasSubstr("bytes_max"), HasSubstr(device.name())),
                   [&] { static_cast<void>(run.context().link(code)); });
  }
  EXPECT_FALSE(run.context().contains(wide));
  run.schedule();
  const Routine next = run.context().link(backend.compile(adds_one(other)));
  next.schedule();
  EXPECT_THAT(next.context().read<float>(small), Each(2));
  EXPECT_THAT(next.context().read<float>(other), Each(1));
}

// D13, D19, bad input: what was recorded may outlive its device and its backend; then it is refused
// naming them
TEST(RefusalsTest, ReplaysAreRefusedAfterTheirDeviceOrBackend) {
  const Tensor x("x", f32, {4});
  for (const bool whole : {false, true}) {
    std::optional<Backend> backend(Backend::open("cc"));
    std::optional<Device> device(backend->physical_device(0).new_virtual_device());
    Recording recording("step");
    std::optional<Routine> run(Context(*device).link(backend->compile(adds_one(x))));
    recording.schedule(*run);
    const Replay replay = recording.finish();
    for (const Event& each : replay.run()) EXPECT_TRUE(each.wait().ok());
    const std::string gone = whole ? "backend 'cc'" : "device '" + device->name() + "'";
    const auto named = AllOf(HasSubstr(gone), HasSubstr("finalised"), HasSubstr("open another"));
    whole ? backend->finalize() : device->finalize();
    Recording late("late");
    expect_refusal(ErrorCode::failed_precondition, named, [&] { late.schedule(*run); });
    run.reset();
    device.reset();
    backend.reset();
    for (int again = 0; again < 2; ++again)
      expect_refusal(ErrorCode::failed_precondition, named, [&] { replay.run(); });
  }
}

// S25, bad input: of two devices that are to wait for each other one is told so, naming both; the
// other goes on
TEST(RefusalsTest, DevicesThatWaitForEachOtherAreNamed) {
  for (const char* const name : {"cc", "pooled_cc"}) {
    const Backend backend = Backend::open(name);
    const Hardware physical = backend.physical_device(0);
    const Device a = physical.new_virtual_device(), b = physical.new_virtual_device();
    sched::ExternalTimeline start("start");
    const Event begin = start.next();
    Event on_b;
    Status seen;
    a.wait(begin);
    const Event on_a = a.submit("waits", [&] { seen = on_b.wait(); });
    b.wait(begin);
    b.wait(on_a);
    on_b = b.submit("after", [] {});
    EXPECT_TRUE(start.signal(1).ok());
    ASSERT_NE(a.timeline().await_for(60s).code(), ErrorCode::deadline) << name << " hangs";
    ASSERT_NE(b.timeline().await_for(60s).code(), ErrorCode::deadline) << name << " hangs";
    // The task's wait was refused, or that of the device, and the task saw it.
    expect_refused(seen.root(), ErrorCode::failed_precondition,
                   AllOf(HasSubstr("cycle"), HasSubstr("'" + a.name() + "'"),
                         HasSubstr("'" + b.name() + "'")));
    for (const Device& each : {a, b}) {
      each.recover();
      EXPECT_TRUE(each.submit("goes on", [] {}).wait().ok());
    }
  }
}

}  // namespace
}  // namespace heddle
