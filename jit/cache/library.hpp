// A library on its way from a compiler, or from a disk, to an Image. A value.
#pragma once

#include <cstddef>
#include <vector>

#include "heddle/image.hpp"

namespace heddle::jit {

struct Library {
  std::vector<std::byte> bytes;
  Checksum sum;  ///< the bytes', taken as early as possible
};

}  // namespace heddle::jit
