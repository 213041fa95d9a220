// What is behind Array.
#pragma once

#include <vector>

#include "heddle/array.hpp"
#include "runtime/memory/buffer_state.hpp"

namespace heddle::rt {

struct ArrayState {
  Device device;
  BufferView view;
  Event event;                  ///< the end of what fills it
  bool filled_outside = false;  ///< the hazards of its memory do not know of that

  /// What uses of it come after, beside its memory's hazards.
  [[nodiscard]] bool is_awaited() const noexcept { return filled_outside && !ended_well(event); }
  [[nodiscard]] std::vector<Event> awaited() const {
    return is_awaited() ? std::vector<Event>{event} : std::vector<Event>();
  }
};

}  // namespace heddle::rt
