// Scratch whose elements one iteration stores and reads, as locals. Pure; any thread.
#pragma once

#include "jit/schedule/scheduling.hpp"

namespace heddle::jit {

/// Replaces scratch by locals where straight-line code of one loop stores the element that it
/// reads, and nothing else reads it, as where loops were fused. Without these stores compilers make
/// vectors of code whose operations lanes lack, such as quotients of integers. The scratch is
/// left with one element.
void store_scratch_in_locals(Scheduling& in);

}  // namespace heddle::jit
