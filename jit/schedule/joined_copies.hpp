// Buffers that begin as a copy of scratch, as the result of two scatters one after the other. Pure;
// any thread.
#pragma once

#include "jit/schedule/scheduling.hpp"

namespace heddle::jit {

/// A buffer that begins as a copy of scratch, which nothing reads afterwards, takes the scratch's
/// place from the start. Copies stay where an output could take the memory of an input until then:
/// where an array of its type is read between the scratch's first use and the copy.
void join_copies(Lowered& lowered);

}  // namespace heddle::jit
