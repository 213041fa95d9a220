// What a kernel has to do at least: operations and traffic, read off its loops. Pure.
#pragma once

#include <cstdint>

#include "jit/loop/loop.hpp"

namespace heddle::tools {

struct Cost {
  double operations = 0;        ///< on elements; fma and mul3 count twice, conversions not at all
  double bytes_read = 0;        ///< from buffers that outlive the run, each once
  double bytes_written = 0;     ///< the same
  double bytes_of_scratch = 0;  ///< in those that do not
  [[nodiscard]] double bytes() const { return bytes_read + bytes_written; }
  /// The bytes of everything that it touches.
  [[nodiscard]] double footprint() const { return bytes() + bytes_of_scratch; }
};
[[nodiscard]] Cost cost_of(const jit::Loop& loop);

}  // namespace heddle::tools
