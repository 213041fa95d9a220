// What is behind Array.
#pragma once

#include "heddle/array.hpp"

namespace heddle::rt {

struct ArrayState {
  Device device;
  BufferView view;
  Event event;  ///< the end of what fills it
};

}  // namespace heddle::rt
