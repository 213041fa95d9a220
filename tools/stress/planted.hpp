// Bugs planted in a random run of the tensor runtime.
#pragma once

#include <cstdint>

namespace heddle::stress {

/// A bug, to check that the run reports the bug.
enum class Planted : std::uint8_t {
  nothing,
  no_waits,  ///< no waits: devices are not ordered at all
  /// Hosts order devices, but one work, drawn at random, omits a required wait for one other
  /// device.
  one_wait_less,
};

}  // namespace heddle::stress
