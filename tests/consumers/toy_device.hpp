// A device made outside heddle, from the installed seam alone. Any thread may call these.
#pragma once

#include <heddle/devices/device.hpp>

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

namespace toy {

/// What toy devices were asked for since the process began.
struct Operations {
  std::atomic<std::uint64_t> to_device{0}, to_host{0}, copies{0}, launches{0}, loads{0};
};
Operations& operations() noexcept;

/// One device with memory of its own: its addresses mean nothing to the host, so whoever touches
/// them other than through a queue crashes at once.
std::vector<std::shared_ptr<heddle::dev::PhysicalDevice>> devices();

/// Registers backend "toy". Throws heddle::Error when the name is taken.
void register_toy();

}  // namespace toy
