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
    o.queue_size = capacity;
    return o;
  }
  sched::TaskDevice open(std::string name, std::uint32_t capacity = 4096) {
    return scheduler_.new_device(options(std::move(name), capacity));
  }
  /// What the host of manual devices does in its loop; the others run by themselves.
  void run_ready() { scheduler_.poll(); }

  Scheduler scheduler_;
};

inline std::string text(const Status& status) { return status.to_string(); }

inline const char* mode_name(sched::Mode mode) {
  constexpr const char* names[] = {"threaded", "inline", "pooled", "manual"};
  return names[static_cast<int>(mode)];
}

}  // namespace heddle

#define HEDDLE_DEVICE_SUITE(suite)                                                 \
  INSTANTIATE_TEST_SUITE_P(                                                        \
      Modes, suite,                                                                \
      testing::Values(heddle::sched::Mode::threaded, heddle::sched::Mode::inline_, \
                      heddle::sched::Mode::pooled, heddle::sched::Mode::manual),   \
      [](const auto& mode) { return std::string(heddle::mode_name(mode.param)); })
