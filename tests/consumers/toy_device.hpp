// A device made outside heddle, from the installed seam alone. Any thread may call these.
#pragma once

#include <heddle/devices/device.hpp>

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

namespace toy {

/// Counts of the requests to toy devices since the process began.
struct Operations {
  std::atomic<std::uint64_t> to_device{0}, to_host{0}, copies{0}, launches{0}, loads{0};
};
Operations& operations() noexcept;

/// One device with its own memory: device addresses are invalid on the host, and host code that
/// touches them other than through a queue crashes at once.
std::vector<std::shared_ptr<heddle::dev::PhysicalDevice>> devices();

/// Registers backend "toy". Throws heddle::Error when the name is taken.
void register_toy();

}  // namespace toy
