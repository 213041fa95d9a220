// What tests of devices whose queues run ahead share: backends of their own, whose devices they
// know, and a device that is held where something has not ended.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <memory>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "heddle/heddle.hpp"
#include "tests/support/asynchronous_device.hpp"

namespace heddle {

inline std::shared_ptr<AsynchronousDevice> next_device;

/// A backend of its own, whose device the test knows.
inline Backend open_held(const std::shared_ptr<AsynchronousDevice>& physical,
                         sched::Mode mode = sched::Mode::threaded) {
  static const bool registered = [] {
    const auto open = [] {
      return std::vector<std::shared_ptr<dev::PhysicalDevice>>{std::exchange(next_device, nullptr)};
    };
    register_backend({"held", "cc", sched::Mode::threaded, open});
    register_backend({"pooled_held", "cc", sched::Mode::pooled, open});
    return true;
  }();
  static_cast<void>(registered);
  next_device = physical;
  return Backend::open(mode == sched::Mode::pooled ? "pooled_held" : "held");
}

class AsynchronousFixture : public testing::Test {
 protected:
  ~AsynchronousFixture() override { physical->resume(); }

  static Code compile(const Backend& backend, const Tensor& x, double by) {
    Index i;
    Program p("add");
    p << (x(i) += by);
    return backend.compile(p);
  }
  BufferView new_view() const { return {Buffer::allocate(device, type), type}; }
  Event write(const BufferView& view, const std::vector<float>& values) const {
    return view.from_host(device, std::as_bytes(std::span(values)));
  }
  std::vector<float> read(const BufferView& view) const {
    std::vector<float> values(4, -1);
    EXPECT_TRUE(view.to_host(device, std::as_writable_bytes(std::span(values))).wait().ok());
    return values;
  }
  /// `asked` was asked for so many operations that are not done.
  static void wait_until_asked(const AsynchronousDevice& asked, std::size_t operations) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (asked.pending() < operations) {
      ASSERT_LT(std::chrono::steady_clock::now(), end) << "it was not asked for anything";
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
  }
  void wait_until_asked(std::size_t operations) const { wait_until_asked(*physical, operations); }

  const std::shared_ptr<AsynchronousDevice> physical = std::make_shared<AsynchronousDevice>();
  const Backend backend = open_held(physical);
  const Device device = backend.physical_device(0).new_virtual_device();
  const ArrayType type{f32, {4}};
  const Tensor x{"x", f32, {4}};
};

}  // namespace heddle
