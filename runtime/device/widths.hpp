// How the physical devices of a backend share processors, where their kernels may run in parts, and
// what helps with these.
#pragma once

namespace heddle::rt {

struct BackendState;
struct Execution;

/// Sets width, helpers and teams of a backend whose physical devices are there; leaves as many of
/// these as have processors. `asked`: the caller gave a width, rather than the environment. Throws
/// Error(invalid_argument) for one that there cannot be.
void share_processors(BackendState& backend, bool asked);

/// What helps a virtual device that is about to be opened, and how many of its parts begin at once.
/// Throws std::bad_alloc.
void take_helpers(BackendState& backend, int ordinal, Execution& execution);

}  // namespace heddle::rt
