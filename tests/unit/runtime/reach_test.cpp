// Devices whose memory the host and each other cannot address: what touches an address other than
// through a queue that reaches it crashes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "devices/device.hpp"
#include "heddle/heddle.hpp"

namespace heddle {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

/// Added to host addresses: the sum is no canonical x86-64 address. Each device has another one.
constexpr std::uintptr_t far_away = std::uintptr_t{1} << 60;

class FarQueue final : public dev::Queue {
 public:
  explicit FarQueue(std::uintptr_t distance) : distance_(distance) {}
  Status zero(void* data, std::size_t bytes) noexcept override {
    std::memset(local(data), 0, bytes);
    return {};
  }
  Status from_host(void* data, const void* host, std::size_t bytes) noexcept override {
    std::memcpy(local(data), host, bytes);
    return {};
  }
  Status to_host(void* host, const void* data, std::size_t bytes) noexcept override {
    std::memcpy(host, local(data), bytes);
    return {};
  }
  Status copy(void* to, const void* from, std::size_t bytes) noexcept override {
    // First to last, whatever overlaps.
    auto* const target = static_cast<volatile char*>(local(to));
    const auto* const source = static_cast<const volatile char*>(local(from));
    for (std::size_t k = 0; k < bytes; ++k) target[k] = source[k];
    return {};
  }
  Status launch(const dev::Module& /*module*/, std::size_t /*kernel*/,
                const heddle_kernel_args& args) noexcept override {
    *args.status = {7, 42};
    return {};
  }

 private:
  void* local(const void* data) const noexcept {
    return reinterpret_cast<void*>(reinterpret_cast<std::uintptr_t>(data) - distance_);
  }
  const std::uintptr_t distance_;
};

class FarDevice final : public dev::PhysicalDevice {
 public:
  explicit FarDevice(unsigned number) : distance_(far_away * number) {
    properties_.name = "far";
    properties_.memory_space = 4200 + number;
  }
  const dev::Properties& properties() const noexcept override { return properties_; }
  Status allocate(std::size_t bytes, void** data) noexcept override {
    void* const host = std::aligned_alloc(64, (bytes + 63) / 64 * 64);
    *data = reinterpret_cast<void*>(reinterpret_cast<std::uintptr_t>(host) + distance_);
    return {};
  }
  void release(void* data, std::size_t /*bytes*/) noexcept override {
    std::free(reinterpret_cast<void*>(reinterpret_cast<std::uintptr_t>(data) - distance_));
  }
  Status new_queue(dev::Completions& /*completions*/,
                   std::unique_ptr<dev::Queue>* queue) noexcept override {
    return dev::make_queue<FarQueue>(queue, distance_);
  }

 private:
  const std::uintptr_t distance_;
  dev::Properties properties_;
};

const Backend& far() {
  static const Backend backend = [] {
    register_backend({"far", "cc", sched::Mode::threaded, [] {
                        return std::vector<std::shared_ptr<dev::PhysicalDevice>>{
                            std::make_shared<FarDevice>(1), std::make_shared<FarDevice>(2)};
                      }});
    return Backend::open("far");
  }();
  return backend;
}

class ReachTest : public testing::Test {
 protected:
  const Backend near = Backend::open("sync_cc");
  const Device one = far().physical_device(0).new_virtual_device();
  const Device two = far().physical_device(1).new_virtual_device();
  const Device here = near.physical_device(0).new_virtual_device();
  const ArrayType type{i32, {4}};
  BufferView make(const Device& on) const { return BufferView(Buffer::allocate(on, type), type); }
};

// D5, D12: views in any memory are copied on any device, one that reaches neither side included
TEST_F(ReachTest, ViewsAreCopiedOnAnyDevice) {
  const std::vector<std::int32_t> values{1, 2, 3, 4};
  for (const Device& from : {one, two, here}) {
    for (const Device& to : {one, two, here}) {
      for (const Device& on : {one, two, here}) {
        const BufferView source = make(from), target = make(to);
        EXPECT_TRUE(source.from_host(from, std::as_bytes(std::span(values))).wait().ok());
        to.await();
        EXPECT_TRUE(target.copy_from(on, source).wait().ok());
        std::vector<std::int32_t> read(4);
        EXPECT_TRUE(target.to_host(to, std::as_writable_bytes(std::span(read))).wait().ok());
        EXPECT_EQ(read, values) << from.name() << " to " << to.name() << " on " << on.name();
      }
    }
  }
}

// D12: overlapping views of one buffer are copied as if the source was read whole before
TEST_F(ReachTest, OverlappingViewsAreCopiedWhole) {
  const std::vector<std::int32_t> values{1, 2, 3, 4};
  for (const Device& on : {one, here}) {
    const BufferView all = make(on);
    const BufferView head(all.buffer(), {i32, {3}}), tail(all.buffer(), {i32, {3}}, 4);
    EXPECT_TRUE(all.from_host(on, std::as_bytes(std::span(values))).wait().ok());
    EXPECT_TRUE(tail.copy_from(on, head).wait().ok());
    std::vector<std::int32_t> read(4);
    EXPECT_TRUE(all.to_host(on, std::as_writable_bytes(std::span(read))).wait().ok());
    EXPECT_THAT(read, ElementsAre(1, 1, 2, 3)) << on.name();
  }
}

// S10: what a kernel reports names routine, device, code and detail, on devices that do not look
TEST_F(ReachTest, WhatAKernelReportsNamesRoutineDeviceAndCode) {
  const Tensor x("x", i32, {4});
  Index i;
  Program p("solve");
  p << (x(i) += 1);
  const Status status = Context(one).link(far().compile(p)).schedule().wait();
  EXPECT_THAT(status.to_string(), AllOf(HasSubstr("'solve'"), HasSubstr(one.name()),
                                        HasSubstr("code 7"), HasSubstr("detail 42")));
}

}  // namespace
}  // namespace heddle
