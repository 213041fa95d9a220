// How bytes get from one buffer to another: one table for all transfers.
#pragma once

#include <memory>
#include <string>

#include "runtime/device_state.hpp"

namespace heddle::rt {

/// Where bytes lie. Who uses it keeps the memory.
struct Place {
  std::shared_ptr<dev::PhysicalDevice> physical;
  std::shared_ptr<const std::string> device;  ///< whose memory it is, by name
  std::byte* data = nullptr;
};
[[nodiscard]] Place place_of(const BufferView& view);
/// Whether a byte is in both.
[[nodiscard]] bool overlap(const BufferView& a, const BufferView& b) noexcept;

enum class Route : std::uint8_t {
  none,    ///< the same bytes, or no bytes
  here,    ///< the queue of the device that copies reaches both
  there,   ///< both are in one memory space, which that device does not reach: a queue of theirs
  staged,  ///< through the host: each side by a queue that reaches it
};

struct Copy {
  Place to, from;
  std::size_t bytes = 0;
  std::string what;  ///< tensor or view, for messages

  [[nodiscard]] Route route(const dev::PhysicalDevice& device) const noexcept;
  /// In a task of the device.
  [[nodiscard]] Status operator()(const Execution& execution) const noexcept;

 private:
  [[nodiscard]] Status stage(const Execution& execution) const;
};

}  // namespace heddle::rt
