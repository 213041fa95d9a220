// What devices take of the machine's memory.
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <vector>

#include "heddle/scheduler.hpp"

namespace heddle {
namespace {

std::size_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  std::size_t all = 0, resident = 0;
  file >> all >> resident;
  return resident * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

// S4, S15: a queue takes memory as it fills, so that thousands of devices may have long ones
TEST(MemoryTest, ThousandsOfDevicesStaySmall) {
  constexpr std::size_t count = 2000;
  constexpr std::size_t device_max = 24 * 1024;  // bytes; a full queue of 4096 tasks takes 393,216
  Scheduler scheduler;
  sched::DeviceOptions options;
  options.mode = sched::Mode::inline_;
  std::vector<sched::TaskDevice> devices;
  devices.reserve(count);
  const auto open_and_use = [&] {
    devices.push_back(scheduler.new_device(options));
    EXPECT_TRUE(devices.back().submit("task", [] {}).wait().ok());
  };
  open_and_use();
  const std::size_t before = resident_bytes();
  while (devices.size() < count) open_and_use();
  const std::size_t each = (resident_bytes() - before) / (count - 1);
  RecordProperty("bytes_per_device", static_cast<int>(each));
  EXPECT_LE(each, device_max);
}

}  // namespace
}  // namespace heddle
