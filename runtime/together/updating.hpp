// Updating: which devices of a data-parallel run make its updates, and the state that the devices
// need. Any thread.
#pragma once

#include <vector>

#include "heddle/data_parallel.hpp"

namespace heddle::rt {

/// Each device updates by itself if its update reads the same values as on the first device and
/// writes only its own memory: then no device waits for a remote update and its copies. Otherwise
/// only the first device updates.
struct Updating {
  std::vector<Routine> routines;  ///< for each device, or only for the first device
  /// Tensors copied from the first device to the rest: parameters and, where each device updates,
  /// the other values that an update reads.
  std::vector<Tensor> state;
  bool by_all = true;  ///< false: only the first of several devices updates
};

/// Links the update on the updating devices. `contexts` have the gradient, and are replaced by
/// contexts with gradient and update. Throws as Context::link() does on the first device.
[[nodiscard]] Updating link_updates(const DataParallelOptions& options,
                                    std::vector<Context>& contexts);

}  // namespace heddle::rt
