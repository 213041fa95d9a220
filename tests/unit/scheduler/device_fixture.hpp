// What the device suites share: a scheduler, and devices of the mode under test.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "heddle/scheduler.hpp"

namespace heddle {

class DeviceTest : public testing::TestWithParam<sched::Mode> {
 protected:
  sched::DeviceOptions options(std::string name, std::uint32_t capacity = 4096) const {
    sched::DeviceOptions o;
    o.name = std::move(name);
    o.mode = GetParam();
    o.capacity = capacity;
    return o;
  }
  sched::Device open(std::string name, std::uint32_t capacity = 4096) {
    return scheduler_.new_device(options(std::move(name), capacity));
  }

  Scheduler scheduler_;
};

inline std::string text(const Status& status) { return status.to_string(); }

}  // namespace heddle

#define HEDDLE_DEVICE_SUITE(suite)                                                                \
  INSTANTIATE_TEST_SUITE_P(                                                                       \
      Modes, suite, testing::Values(heddle::sched::Mode::threaded, heddle::sched::Mode::inline_), \
      [](const auto& mode) {                                                                      \
        return mode.param == heddle::sched::Mode::threaded ? "threaded" : "inline";               \
      })
