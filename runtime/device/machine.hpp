// Which machine profile a backend has. Any thread.
#pragma once

#include "heddle/backend.hpp"
#include "jit/machine/profile_file.hpp"

namespace heddle::rt {

/// `options.machine`; else what `heddle tune --machine` kept in the cache's folder, where there is
/// one for this processor; else what is usual. `options` were completed; where they ask for no
/// cache, nothing is read.
[[nodiscard]] jit::KnownMachine machine_of(const BackendOptions& options);
/// `options` with that profile, and with what the scheduler takes from it, unless they have it. A
/// file that is not used is a warning in the log. Throws invalid_argument for a profile with values
/// that no machine has.
void take_machine(BackendOptions& options);

}  // namespace heddle::rt
