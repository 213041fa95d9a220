// What scheduling costs in memory.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "heddle/heddle.hpp"
#include "tests/unit/scheduler/allocations.hpp"

namespace heddle {

/// What `act` allocates on this thread, and what the worker of the device does meanwhile.
inline std::vector<std::uint64_t> cost_of(const Device& device, const std::function<void()>& act) {
  std::uint64_t there_before = 0, there_after = 0;
  device.timeline().submit("before", [&] { there_before = allocations(); }).wait();
  const std::uint64_t before = allocations();
  act();
  const std::uint64_t here = allocations() - before;
  device.timeline().submit("after", [&] { there_after = allocations(); }).wait();
  return {here, there_after - there_before};
}

}  // namespace heddle
