// A backend that checks the order of its tasks, and three devices.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "heddle/heddle.hpp"
#include "tests/device/found_orders.hpp"

namespace heddle {

class OrderCheckTest : public testing::Test {
 protected:
  OrderCheckTest() { settle(); }

  [[nodiscard]] BufferView view(std::size_t begin = 0, std::size_t end = 16) const {
    return {buffer, {u8, {static_cast<std::int64_t>(end - begin)}}, begin};
  }
  Event write(const Device& on, std::vector<Event> after = {}) const {
    return on.submit("write", {.writes = {view()}}, [] {}, {.after = std::move(after)});
  }
  Event read(const Device& on, std::vector<Event> after = {}) const {
    return on.submit("read", {.reads = {view()}}, [] {}, {.after = std::move(after)});
  }
  /// What was told of all that was asked for so far, which has ended: host work may yet come to
  /// know of what it comes after while it runs.
  std::vector<std::string> told() const {
    for (const Device& each : {one, two, three}) each.await();
    return found.take_labels();
  }
  /// All that was asked for so far comes before what follows.
  void settle() const { static_cast<void>(told()); }

  const FoundOrders found;
  const Backend backend = found.open("cc");
  const Device one = backend.physical_device(0).new_virtual_device();
  const Device two = backend.physical_device(0).new_virtual_device();
  const Device three = backend.physical_device(0).new_virtual_device();
  const Buffer buffer = Buffer::allocate(one, {u8, {16}});
};

}  // namespace heddle
