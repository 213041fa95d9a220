// Checks the options of a backend before the backend is opened. Any thread.
#pragma once

#include "heddle/backend.hpp"

namespace heddle::rt {

/// Throws invalid_argument, naming the option, its value and the expected values, for options that
/// devices would refuse or could not work with. Called before devices exist.
void check(const BackendOptions& options);

}  // namespace heddle::rt
