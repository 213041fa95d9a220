// A lower bound of a kernel's work: operations and traffic, read from its loops. Pure.
#pragma once

#include <cstdint>

#include "jit/loop/loop.hpp"

namespace heddle::tools {

struct Cost {
  double operations = 0;        ///< on elements; fma and mul3 count twice, conversions not at all
  double bytes_read = 0;        ///< from buffers that outlive the run, each buffer once
  double bytes_written = 0;     ///< the same
  double bytes_of_scratch = 0;  ///< in buffers of one run
  [[nodiscard]] double bytes() const { return bytes_read + bytes_written; }
  /// The bytes of all touched buffers.
  [[nodiscard]] double footprint() const { return bytes() + bytes_of_scratch; }
};
[[nodiscard]] Cost cost_of(const jit::Loop& loop);

}  // namespace heddle::tools
