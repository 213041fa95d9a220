// The machine profile of a backend. Any thread.
#pragma once

#include "heddle/backend.hpp"
#include "jit/machine/profile_file.hpp"

namespace heddle::rt {

/// `options.machine`; otherwise the profile of this processor stored by `heddle tune --machine` in
/// the cache's folder, if there is one; otherwise the usual profile. `options` are complete;
/// without a cache, no file is read.
[[nodiscard]] jit::KnownMachine machine_of(const BackendOptions& options);
/// Sets the profile in `options`, and the scheduler's options derived from the profile, unless set
/// already. A stored file that cannot be used is logged as a warning. Throws invalid_argument for a
/// profile with impossible values.
void take_machine(BackendOptions& options);

}  // namespace heddle::rt
