// Loading: a device makes a module of an image once, however many link its code, in its own way.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "devices/device.hpp"
#include "heddle/heddle.hpp"

namespace heddle {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

/// Numbers its kernels itself, and has no function that a host could call: "module code", of which
/// a queue finds the function elsewhere.
struct OwnModule final : dev::Module {
  std::shared_ptr<const dev::Module> inner;
  const void* device = nullptr;
};

struct Loads {
  std::atomic<int> asked{0}, alive{0};
  std::atomic<bool> refuse{false}, slow{false};
  std::string kind;  // the last image's
  std::size_t kernels = 0;
};
Loads loads;

class OwnQueue final : public dev::Queue {
 public:
  explicit OwnQueue(const void* device) : device_(device) {}
  Status zero(void* data, std::size_t bytes) noexcept override {
    std::memset(data, 0, bytes);
    return {};
  }
  Status from_host(void* data, const void* host, std::size_t bytes) noexcept override {
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
    const auto& own = static_cast<const OwnModule&>(module);
    if (own.device != device_) return Status(ErrorCode::internal, "another device's module");
    own.inner->host_function(kernel)(&args);
    return {};
  }

 private:
  const void* device_;
};

class OwnDevice final : public dev::PhysicalDevice {
 public:
  const dev::Properties& properties() const noexcept override { return properties_; }
  Status allocate(std::size_t bytes, void** data) noexcept override {
    *data = std::aligned_alloc(64, (bytes + 63) / 64 * 64);
    return {};
  }
  void release(void* data, std::size_t) noexcept override { std::free(data); }
  Status new_queue(dev::Completions& /*completions*/,
                   std::unique_ptr<dev::Queue>* queue) noexcept override {
    return dev::make_queue<OwnQueue>(queue, this);
  }
  Status load(const Image& image, const dev::LoadOptions& options,
              std::shared_ptr<const dev::Module>* module) noexcept override {
    ++loads.asked;
    if (loads.refuse) return Status(ErrorCode::device_failed, "it has no room for " + options.name);
    if (loads.slow) std::this_thread::sleep_for(std::chrono::milliseconds(50));
    loads.kind = image.kind();
    loads.kernels = image.kernels().size();
    auto* const own = new OwnModule;
    ++loads.alive;
    *module = std::shared_ptr<const OwnModule>(own, [](const OwnModule* gone) {
      --loads.alive;
      delete gone;
    });
    own->device = this;
    return load_on_host(image, options, &own->inner);
  }

 private:
  dev::Properties properties_{"own", 77, 0, 0, 2};
};

/// Two devices that load for themselves.
Backend own_backend() {
  static const bool registered = [] {
    register_backend({"own", "cc", sched::Mode::threaded, [] {
                        return std::vector<std::shared_ptr<dev::PhysicalDevice>>{
                            std::make_shared<OwnDevice>(), std::make_shared<OwnDevice>()};
                      }});
    return true;
  }();
  static_cast<void>(registered);
  return Backend::open("own");
}

class ModulesTest : public testing::Test {
 protected:
  void SetUp() override {
    loads.asked = 0;
    loads.refuse = loads.slow = false;
  }
  Program increment() const {
    Index i;
    Program p("inc");
    p << (x(i) += 1.0);
    return p;
  }
  const Tensor x{"x", f32, {2}};
};

// D14: all virtual devices of a physical one share its module
TEST_F(ModulesTest, ADeviceLoadsAnImageOnce) {
  const Backend backend = own_backend();
  const Code code = backend.compile(increment());
  EXPECT_EQ(loads.asked, 0) << "compiling loads nothing";
  const Device first = backend.physical_device(0).new_virtual_device();
  const Device second = backend.physical_device(0).new_virtual_device();
  {
    std::vector<Routine> routines{Context(first).link(code), Context(first).link(code),
                                  Context(second).link(code)};
    EXPECT_EQ(loads.asked, 1);
    EXPECT_EQ(loads.kind, host_image_kind());
    EXPECT_EQ(loads.kernels, 1u);
    routines.push_back(Context(backend.physical_device(1).new_virtual_device()).link(code));
    EXPECT_EQ(loads.asked, 2) << "another device has its own";
    for (const Routine& routine : routines) {
      routine.schedule();
      EXPECT_THAT(routine.context().read<float>(x), ElementsAre(1, 1));
    }
    EXPECT_EQ(loads.alive, 2);
  }
  EXPECT_EQ(loads.alive, 0) << "the code is here yet, its modules went";
  const Routine again = Context(first).link(code);
  EXPECT_EQ(loads.asked, 3);
  again.schedule();
  EXPECT_THAT(again.context().read<float>(x), ElementsAre(1, 1));
}

// D14: a thread that asks meanwhile waits
TEST_F(ModulesTest, ThreadsThatLinkAtOnceLoadOnce) {
  const Backend backend = own_backend();
  const Code code = backend.compile(increment());
  const Device device = backend.physical_device(0).new_virtual_device();
  loads.slow = true;
  std::vector<std::thread> threads;
  std::vector<std::optional<Routine>> routines(4);
  for (auto& routine : routines)
    threads.emplace_back([&] { routine = Context(device).link(code); });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(loads.asked, 1);
  for (const auto& routine : routines) EXPECT_TRUE(routine->schedule().wait().ok());
}

// D14: what is not used goes; what is queued keeps its own
TEST_F(ModulesTest, QueuedTasksKeepTheirModule) {
  const Backend backend = own_backend();
  const Device device = backend.physical_device(0).new_virtual_device();
  const Context empty(device);
  std::optional<Routine> routine = empty.link(backend.compile(increment()));
  const Context holds = routine->context();
  const Event before = device.record();
  for (int k = 0; k < 100; ++k) static_cast<void>(routine->schedule());
  routine.reset();
  EXPECT_THAT(holds.read<float>(x), ElementsAre(100, 100));
}

// D14, J10: the device's words, and the code is as good as before
TEST_F(ModulesTest, WhatDevicesRefuseIsToldAtLink) {
  const Backend backend = own_backend();
  const Code code = backend.compile(increment());
  const Device device = backend.physical_device(0).new_virtual_device();
  loads.refuse = true;
  try {
    static_cast<void>(Context(device).link(code));
    FAIL() << "linked";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::device_failed);
    EXPECT_THAT(error.what(), HasSubstr("no room for inc"));
  }
  loads.refuse = false;
  const Routine routine = Context(device).link(code);
  EXPECT_TRUE(routine.schedule().wait().ok());
}

// D14: cores call what one of them loaded
TEST_F(ModulesTest, CoresShareWhatOneOfThemLoaded) {
  const auto cores = {dev::make_cpu_device(), dev::make_cpu_device()};
  const void* space = nullptr;
  for (const auto& core : cores) {
    EXPECT_NE(core->properties().code_space, nullptr);
    if (space != nullptr) {
      EXPECT_EQ(core->properties().code_space, space);
    }
    space = core->properties().code_space;
  }
}

// D14: an image for other hardware is no library of the host's
TEST_F(ModulesTest, ImagesOfOtherKindsAreRefused) {
  const Image image("cubin-sm_90", {}, checksum({}), {{"k"}});
  std::shared_ptr<const dev::Module> module;
  const Status status = dev::make_cpu_device()->load(image, {.name = "mm"}, &module);
  EXPECT_EQ(status.code(), ErrorCode::invalid_argument);
  EXPECT_THAT(status.to_string(), HasSubstr("unit 'mm' is an image of kind 'cubin-sm_90'"));
  EXPECT_EQ(module, nullptr);
}

}  // namespace
}  // namespace heddle
