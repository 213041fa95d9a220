// Library: the bytes of a compiled library, before an Image is made from them. A value.
#pragma once

#include <cstddef>
#include <vector>

#include "heddle/image.hpp"

namespace heddle::jit {

struct Library {
  std::vector<std::byte> bytes;
  Checksum sum;  ///< of the bytes, taken as early as possible
};

}  // namespace heddle::jit
