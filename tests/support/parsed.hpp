// Loops from text.
#pragma once

#include <string>

#include "jit/loop/text.hpp"

namespace heddle::jit {

/// The loop that `text` describes below its first line.
inline Loop parsed(const std::string& text) { return parse_loop("heddle-loop 1\n" + text); }

}  // namespace heddle::jit
