// Assigns processors to a backend's physical devices for kernels in parts, and chooses the helpers.
// Called while a backend or a device is opened.
#pragma once

namespace heddle::rt {

struct BackendState;
struct Execution;

/// Sets width, helpers and teams of a backend with its physical devices in place; removes physical
/// devices without a processor of their own. `asked`: the width is the caller's, not the
/// environment's. Throws Error(invalid_argument) for an impossible width.
void share_processors(BackendState& backend, bool asked);

/// Sets the helpers and the width of a virtual device about to be opened. Throws std::bad_alloc.
void take_helpers(BackendState& backend, int ordinal, Execution& execution);

}  // namespace heddle::rt
