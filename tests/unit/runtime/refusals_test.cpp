// Refusals of the runtime that no other test asks for, each by what it says.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "devices/device.hpp"
#include "heddle/heddle.hpp"
#include "tests/support/failure.hpp"

namespace heddle {
namespace {

using testing::AllOf;
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

// D12: a tensor has one place in related contexts
TEST(RefusalsTest, WithPutsNoTensorIntoAContextThatHasIt) {
  const Backend backend = Backend::open("cc");
  const Device device = backend.physical_device(0).new_virtual_device();
  const Tensor x("x", f32, {4});
  const Context context = Context(device).link(backend.compile(adds_one(x))).context();
  const BufferView other(Buffer::allocate(device, x.type()), x.type());
  expect_refusal(ErrorCode::failed_precondition, AllOf(HasSubstr("'x'"), HasSubstr("already")),
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

}  // namespace
}  // namespace heddle
