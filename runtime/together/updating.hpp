// Updating: which devices of a data-parallel run make its updates, and what they need for that.
#pragma once

#include <vector>

#include "heddle/data_parallel.hpp"

namespace heddle::rt {

/// Each device updates for itself if it finds what the first one finds, and what it writes is its
/// own: then nobody waits for one device's update, and for copies of it. Else the first device
/// updates alone.
struct Updating {
  std::vector<Routine> routines;  ///< for each device, or for the first one
  /// What all devices have from the first one: parameters, and for those that update for
  /// themselves what else an update reads.
  std::vector<Tensor> state;
  bool by_all = true;  ///< else by the first one of several
};

/// Links the update where it is to run, in the contexts that have the gradient, which become those
/// that have both. Throws as Context::link() does on the first device. Any thread.
[[nodiscard]] Updating link_updates(const DataParallelOptions& options,
                                    std::vector<Context>& contexts);

}  // namespace heddle::rt
