// What backends cannot be opened with. Any thread.
#pragma once

#include "heddle/backend.hpp"

namespace heddle::rt {

/// What devices would refuse, or could not work with, is told before there are any: throws
/// invalid_argument, which names the option, its value and what was expected.
void check(const BackendOptions& options);

}  // namespace heddle::rt
