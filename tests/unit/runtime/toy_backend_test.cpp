// A backend from outside: a device with its own memory space and counters, registered by name (B5).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <functional>

#include "devices/device.hpp"
#include "heddle/heddle.hpp"
#include "tests/support/failure.hpp"

namespace heddle {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::atomic<int> launches{0};
std::atomic<bool> broken{false};
std::atomic<bool> full{false};
std::atomic<bool> takes_no_data{false};
std::atomic<std::uint32_t> kernels_say{0};

class ToyQueue final : public dev::Queue {
 public:
  Status zero(void* data, std::size_t bytes) noexcept override {
    std::memset(data, 0, bytes);
    return {};
  }
  Status from_host(void* data, const void* host, std::size_t bytes) noexcept override {
    if (takes_no_data) return Status(ErrorCode::device_failed, "the toy takes no data");
    return copy(data, host, bytes);
  }
  Status to_host(void* host, const void* data, std::size_t bytes) noexcept override {
    return copy(host, data, bytes);
  }
  Status copy(void* to, const void* from, std::size_t bytes) noexcept override {
    std::memcpy(to, from, bytes);
    return {};
  }
  Status launch(const dev::Module& module, std::size_t kernel,
                const heddle_kernel_args& args) noexcept override {
    if (broken) return Status(ErrorCode::device_failed, "the toy broke");
    ++launches;
    module.host_function(kernel)(&args);
    args.status->code = kernels_say;
    return {};
  }
};

class ToyDevice final : public dev::PhysicalDevice {
 public:
  const dev::Properties& properties() const noexcept override { return properties_; }
  Status allocate(std::size_t bytes, void** data) noexcept override {
    *data = full ? nullptr : std::aligned_alloc(64, (bytes + 63) / 64 * 64);
    return *data != nullptr ? Status() : Status(ErrorCode::exhausted, "the toy is full");
  }
  void release(void* data, std::size_t /*bytes*/) noexcept override { std::free(data); }
  Status new_queue(dev::Completions& /*completions*/,
                   std::unique_ptr<dev::Queue>* queue) noexcept override {
    return dev::make_queue<ToyQueue>(queue);
  }

 private:
  // A space of its own: transfers are staged, merges copied, constants uploaded.
  dev::Properties properties_{"toy", 42, 0, 2, 3};
};

const Backend& toy() {
  static const Backend backend = [] {
    register_backend({"toy", "cc", sched::Mode::threaded, [] {
                        return std::vector<std::shared_ptr<dev::PhysicalDevice>>{
                            std::make_shared<ToyDevice>()};
                      }});
    return Backend::open("TOY");
  }();
  return backend;
}

Program increment(const Tensor& x) {
  Index i;
  Program p("inc");
  p << (x(i) += 1.0);
  return p;
}

// B5, D11
TEST(ToyBackendTest, RunsProgramsOnItsOwnDevice) {
  const Tensor x("x", f32, {2});
  const Device device = toy().physical_device(0).new_virtual_device();
  const int before = launches;
  const Routine run = Context(device).link(toy().compile(increment(x)));
  run.schedule();
  EXPECT_THAT(run.context().read<float>(x), ElementsAre(1, 1));
  EXPECT_EQ(launches, before + 1);
  EXPECT_THAT(device.name(), HasSubstr("toy:0."));
}

// S10: a kernel that reports a code fails its task, and is named, however it was launched
TEST(ToyBackendTest, WhatAKernelReportsIsAFailure) {
  const Tensor x("x", f32, {2}), y("y", f32, {2});
  Index i;
  Program add("add");
  add << (x(i) += merge(y)(i));
  const Device device = toy().physical_device(0).new_virtual_device();
  const Routine once = Context(device).link(toy().compile(increment(x))),
                more = once.context().link(toy().compile(increment(y))),
                merging = more.context().link(toy().compile(add));
  Recording recording("both");
  recording.schedule(once);
  recording.schedule(more);
  const Replay replay = recording.finish();
  const auto fails = [&](const char* name, const std::function<Event()>& run) {
    kernels_say = 7;
    const Status status = run().wait();
    kernels_say = 0;
    EXPECT_EQ(status.code(), ErrorCode::device_failed);
    EXPECT_THAT(status.to_string(), testing::AllOf(HasSubstr(name), HasSubstr("code 7")));
    device.recover();
    once.context().write(x, std::vector<float>(2));
    more.context().write(y, std::vector<float>(2));
  };
  fails("'inc'", [&] { return once.schedule(); });
  fails("'add'", [&] { return merge(merging, more.context(), MergeMode::copy); });
  fails("'both'", [&] { return replay.run().front(); });
}

// F6: an update that fails amid its work leaves no value, in a queue's own place or beside it
TEST(ToyBackendTest, UpdatesThatFailLeaveNoValue) {
  const auto fails = [](std::size_t arrays) {
    const Device device = toy().physical_device(0).new_virtual_device();
    std::vector<Array> rows;
    for (std::size_t k = 0; k < arrays; ++k)
      rows.push_back(Array(device, std::vector<float>{1, 2}));
    const Variable state("state", std::exchange(rows, {}));
    const Executor step(device, [state](const Graph& g) {
      std::vector<Node> next = state.read(g);
      for (Node& each : next) each = each + 1;
      state.update(g, next);
    });
    for (int k = 0; k < 3; ++k) step();
    device.await();
    EXPECT_THAT(state.value().back().values<float>(), ElementsAre(4, 5));
    for (int k = 0; k < 3; ++k) step();
    device.await();
    kernels_say = 7;
    step();
    EXPECT_THAT(failure([&] { device.await(); }).to_string(), HasSubstr("code 7"));
    kernels_say = 0;
    device.recover();
    EXPECT_THAT(state.value().back().wait().to_string(), HasSubstr("code 7")) << arrays;
  };
  fails(1);
  fails(6);
}

// S10, D6: a merge whose copy fails is a failure, and its consumer does not run
TEST(ToyBackendTest, FailedMergesFailTheirDevice) {
  const Tensor x("x", f32, {2});
  const Backend cc = Backend::open("cc");
  const Routine source =
      Context(cc.physical_device(0).new_virtual_device()).link(cc.compile(increment(x)));
  EXPECT_TRUE(source.schedule().wait().ok());
  Index i;
  Program add("add");
  add << (x(i) += merge(x)(i));
  const Code code = toy().compile(add);
  for (const bool at_once : {false, true}) {
    const Device device = toy().physical_device(0).new_virtual_device();
    const Routine consumer = Context(device).link(code);
    EXPECT_THAT(consumer.context().read<float>(x), ElementsAre(0, 0));
    takes_no_data = true;
    const Event event = at_once ? merge(consumer, source.context(), MergeMode::copy)
                                : load_merge(consumer, source.context(), MergeMode::copy).event;
    EXPECT_EQ(event.wait().code(), ErrorCode::device_failed) << at_once;
    takes_no_data = false;
    EXPECT_THAT(event.status().to_string(), HasSubstr("the toy takes no data"));
    device.recover();
    if (at_once) consumer.context().write(x, std::vector<float>(2));
    EXPECT_THAT(consumer.context().read<float>(x), ElementsAre(0, 0));
  }
}

// D5, D6: another memory space is staged, and a stream becomes a copy that says so
TEST(ToyBackendTest, TransfersBetweenSpacesAreStaged) {
  const Tensor x("x", f32, {2});
  const Backend cc = Backend::open("cc");
  const Routine source =
      Context(cc.physical_device(0).new_virtual_device()).link(cc.compile(increment(x)));
  EXPECT_TRUE(source.schedule().wait().ok());
  const Device device = toy().physical_device(0).new_virtual_device();
  Index i;
  Program add("add");
  add << (x(i) += merge(x)(i) * 10.0);
  const Routine consumer = Context(device).link(toy().compile(add));
  EXPECT_EQ(load_merge(consumer, source.context(), MergeMode::stream).outcome,
            TransferOutcome::copied);
  consumer.schedule();
  EXPECT_THAT(consumer.context().read<float>(x), ElementsAre(10, 10));
  EXPECT_TRUE(copy(x, consumer.context(), source.context()).event.wait().ok());
  EXPECT_THAT(source.context().read<float>(x), ElementsAre(10, 10));
}

// D4: constants are uploaded where memory is not shared
TEST(ToyBackendTest, HostedConstantsAreUploaded) {
  const Tensor c("c", HostArray::range({f32, {3}}), MemoryMode::hosted_constant), y("y", f32, {3});
  Index i;
  Program p("use");
  p << (y(i) = c(i) * 2.0);
  const Routine run = Context(toy().physical_device(0).new_virtual_device()).link(toy().compile(p));
  run.schedule();
  EXPECT_THAT(run.context().read<float>(y), ElementsAre(0, 2, 4));
  EXPECT_EQ(run.context().from_host(c).outcome, TransferOutcome::scheduled);
}

// D4, J4, O39: the first values of host storage, as they were when it was linked, reach memory of
// another space too; what is a constant stays one there
TEST(ToyBackendTest, HostStorageIsUploadedAsItWas) {
  const HostArray host = HostArray::range({f32, {3}});
  const Tensor x("x", host), y("y", f32, {3});
  const Tensor c("c", HostArray::range({f32, {3}}), MemoryMode::hosted_constant);
  Index i;
  Program p("use");
  p << (x(i) += c(i)) << (y(i) = x(i) * 10.0);
  const Device device = toy().physical_device(0).new_virtual_device();
  sched::ExternalTimeline gate("gate");
  const Event opened = gate.next();
  device.wait(opened);
  const Routine run = Context(device).link(toy().compile(p));
  host.set(0, 100);
  run.schedule();
  EXPECT_TRUE(gate.signal(opened.ticket()).ok());
  EXPECT_THAT(run.context().read<float>(y), ElementsAre(0, 20, 40));
  try {
    run.context().write(c, std::vector<float>(3));
    ADD_FAILURE() << "written";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::failed_precondition);
    EXPECT_THAT(e.what(), testing::AllOf(HasSubstr("'c'"), HasSubstr("hosted(constant)")));
  }
}

// D1, O5: strategies ask the device
TEST(ToyBackendTest, StrategiesFollowTheDevice) {
  static_cast<void>(toy());
  const std::pair<DeviceStrategy, int> expected[] = {{DeviceStrategy::physical_devices_only, 1},
                                                     {DeviceStrategy::for_parallel_copying, 3},
                                                     {DeviceStrategy::most_parallel_devices, 3}};
  for (const auto& [strategy, count] : expected) {
    BackendOptions options;
    options.name = "toy";
    options.strategy = strategy;
    EXPECT_EQ(Backend::open(options).suggested_num_virtual_devices(), count);
  }
}

// S10: a device's failure names device, routine and cause
TEST(ToyBackendTest, DeviceFailureNamesRoutineAndCause) {
  const Tensor x("x", f32, {2});
  const Device device = toy().physical_device(0).new_virtual_device();
  const Routine run = Context(device).link(toy().compile(increment(x)));
  broken = true;
  const Status status = run.schedule().wait();
  broken = false;
  EXPECT_THAT(status.to_string(), testing::AllOf(HasSubstr(device.name()), HasSubstr("'inc'"),
                                                 HasSubstr("the toy broke")));
  device.recover();
  run.context().write(x, std::vector<float>(2));
  run.schedule();
  EXPECT_THAT(run.context().read<float>(x), ElementsAre(1, 1));
}

// D3, bad input: memory that cannot be had, when linking and for a merge buffer, is refused at the
// call, and the device goes on
TEST(ToyBackendTest, NoMemoryNamesTensorBytesAndDevice) {
  const Tensor x("x", f32, {1000});
  Index i;
  Program add("add");
  add << (x(i) += merge(x)(i));
  const Code code = toy().compile(add);
  const Device device = toy().physical_device(0).new_virtual_device();
  const Routine source =
      Context(toy().physical_device(0).new_virtual_device()).link(toy().compile(increment(x)));
  EXPECT_TRUE(source.schedule().wait().ok());
  const auto reported = testing::AllOf(HasSubstr("'x'"), HasSubstr("4000 bytes"),
                                       HasSubstr(device.name()), HasSubstr("the toy is full"));
  full = true;
  const auto expect_refused = [&](const std::function<void()>& f) {
    try {
      f();
      ADD_FAILURE() << "there was memory";
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ErrorCode::exhausted);
      EXPECT_THAT(e.what(), reported);
    }
  };
  expect_refused([&] { static_cast<void>(Context(device).link(code)); });
  full = false;
  const Routine consumer = Context(device).link(code);
  device.await();
  full = true;
  expect_refused(
      [&] { static_cast<void>(load_merge(consumer, source.context(), MergeMode::copy)); });
  expect_refused([&] { merge(consumer, source.context(), MergeMode::copy); });
  full = false;
  device.await();
  EXPECT_TRUE(merge(consumer, source.context(), MergeMode::copy).wait().ok());
  EXPECT_EQ(consumer.context().read<float>(x)[999], 1);
}

// D12, bad input: memory that a device cannot address is refused, not read
TEST(ToyBackendTest, MemoryOutOfReachIsRefused) {
  const Tensor x("x", f32, {2});
  const Device near = toy().physical_device(0).new_virtual_device();
  const Backend cc = Backend::open("cc");
  const Device far = cc.physical_device(0).new_virtual_device();
  const BufferView view(Buffer::allocate(near, x.type()), x.type());
  std::vector<float> values(2);
  const auto bytes = std::as_writable_bytes(std::span(values));
  const std::function<void()> uses[] = {[&] { static_cast<void>(Context(far).with(x, view)); },
                                        [&] { view.to_host(far, bytes); },
                                        [&] { view.from_host(far, bytes); }};
  for (const auto& use : uses) {
    try {
      use();
      ADD_FAILURE() << "accepted";
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ErrorCode::invalid_argument);
      EXPECT_THAT(e.what(), testing::AllOf(HasSubstr(far.name()), HasSubstr("copy_from")));
    }
  }
  const BufferView there(Buffer::allocate(far, x.type()), x.type());
  near.await();
  EXPECT_TRUE(there.copy_from(far, view).wait().ok());
  EXPECT_TRUE(there.to_host(far, bytes).wait().ok());
}

// B5, bad input
TEST(ToyBackendTest, BadRegistrationsAreRefused) {
  static_cast<void>(toy());
  const auto refusal = [](BackendSpec spec) {
    try {
      register_backend(std::move(spec));
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  const auto none = [] { return std::vector<std::shared_ptr<dev::PhysicalDevice>>{}; };
  EXPECT_THAT(refusal({"Toy", "cc", sched::Mode::threaded, none}), HasSubstr("exists already"));
  EXPECT_THAT(refusal({"toy2", "tcc", sched::Mode::threaded, none}), HasSubstr("'tcc'"));
  EXPECT_THAT(refusal({"", "cc", sched::Mode::threaded, none}), HasSubstr("needs a name"));
  EXPECT_THAT(refusal({"toy3", "cc", sched::Mode::threaded, nullptr}), HasSubstr("function"));
}

// D11: the null device takes everything and runs nothing
TEST(NullBackendTest, TakesEverythingAndRunsNothing) {
  const Backend null = Backend::open("null");
  const Tensor x("x", f32, {2});
  const Routine run =
      Context(null.physical_device(0).new_virtual_device()).link(null.compile(increment(x)));
  EXPECT_TRUE(run.schedule().wait().ok());
  EXPECT_EQ(run.context().device().statistics().launches, 1u);
}

// D11, bad input: nothing is what its code does elsewhere too, so elsewhere refuses it
TEST(NullBackendTest, ItsCodeIsRefusedElsewhere) {
  const Code nothing = Backend::open("null").compile(increment(Tensor("x", f32, {2})));
  const Backend cc = Backend::open("sync_cc");
  try {
    static_cast<void>(Context(cc.physical_device(0).new_virtual_device()).link(nothing));
    ADD_FAILURE() << "linked";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::failed_precondition);
    EXPECT_THAT(e.what(), testing::AllOf(HasSubstr("'inc'"), HasSubstr("sync_cc:0.0"),
                                         HasSubstr("null backend")));
  }
}

}  // namespace
}  // namespace heddle
