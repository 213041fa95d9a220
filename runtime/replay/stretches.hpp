// How recorded calls become tasks: on each device, one for each stretch between two waits. Knows
// what the calls touch, and nothing else of them.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "runtime/door/submit.hpp"

namespace heddle::rt {

/// A call, as far as order is concerned.
struct RecordedUse {
  std::size_t device = 0;  ///< a number for it
  std::span<const Accesses::Touch> touches;
  bool apart = false;  ///< it is a task of its own
};

/// Calls of one device that run one after the other, as one task.
struct Stretch {
  /// The end of an earlier one, on another device.
  struct Before {
    std::size_t stretch;  ///< by its place in the list
    bool heeded;          ///< if it ended badly, this one is skipped: it reads what that one writes
  };
  std::size_t device = 0;
  std::vector<std::size_t> calls;  ///< by their places in the recording
  std::vector<Before> after;       ///< each of those that it waits for, whatever others do
};

/// In an order in which they can be submitted: each after those that it waits for, and those of one
/// device in the order of its calls.
[[nodiscard]] std::vector<Stretch> cut_into_stretches(std::span<const RecordedUse> calls);

}  // namespace heddle::rt
