// Stretches (segments): cuts recorded calls into tasks, on every device a task per segment between
// two waits. Knows only the calls' accesses.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "runtime/door/submit.hpp"

namespace heddle::rt {

/// The device and the accesses of a call.
struct RecordedUse {
  std::size_t device = 0;  ///< the device's number in the recording
  std::span<const Accesses::Touch> touches;
  bool apart = false;  ///< the call must be a separate task
};

/// Calls of one device that run in sequence, as one task.
struct Stretch {
  /// A wait for the end of an earlier segment, on another device.
  struct Before {
    std::size_t stretch;  ///< index in the list
    bool heeded;  ///< values required: a bad end of the awaited segment skips the waiting segment
  };
  std::size_t device = 0;
  std::vector<std::size_t> calls;  ///< indices in the recording
  /// every wait of the segment's calls, even those implied by earlier segments
  std::vector<Before> after;
};

/// The segments in an order for submission: after their awaited segments, and on a device in the
/// order of the calls.
[[nodiscard]] std::vector<Stretch> cut_into_stretches(std::span<const RecordedUse> calls);

}  // namespace heddle::rt
