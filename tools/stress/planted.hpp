// What is wrong on purpose in a random run of the tensor runtime.
#pragma once

#include <cstdint>

namespace heddle::stress {

/// A bug, to see whether it is noticed.
enum class Planted : std::uint8_t {
  nothing,
  no_waits,  ///< nobody sees to the order between devices
  /// Hosts see to it; but one work, drawn, does not wait for what it has to on one other device.
  one_wait_less,
};

}  // namespace heddle::stress
