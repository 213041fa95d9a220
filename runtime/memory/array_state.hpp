// The state behind Array. A value; not synchronised.
#pragma once

#include <vector>

#include "heddle/array.hpp"
#include "runtime/memory/buffer_state.hpp"

namespace heddle::rt {

struct ArrayState {
  Device device;
  BufferView view;
  Event event;                  ///< the end of the task that fills the array
  bool filled_outside = false;  ///< the memory's hazards do not include `event`

  /// Events that uses of the array wait for, beside the memory's hazards.
  [[nodiscard]] bool is_awaited() const noexcept { return filled_outside && !ended_well(event); }
  [[nodiscard]] std::vector<Event> awaited() const {
    return is_awaited() ? std::vector<Event>{event} : std::vector<Event>();
  }
};

}  // namespace heddle::rt
