// Loops from text.
#pragma once

#include <string>

#include "jit/loop/text.hpp"

namespace heddle::jit {

/// The loop in `text`, which lacks the first line of the format.
inline Loop parsed(const std::string& text) { return parse_loop("heddle-loop 1\n" + text); }

}  // namespace heddle::jit
