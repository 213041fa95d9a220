// Inputs whose short last axis lies across the loop over most elements, as of points f32[N, 3] that
// each iteration reads component by component: where a nest reads each element many times, it
// reads a copy with that axis first, whose elements lie side by side for vectors.
#pragma once

#include "jit/schedule/scheduling.hpp"

namespace heddle::jit {

/// The statements of the kernel, reading such copies; the copies come first.
[[nodiscard]] Block with_turned_inputs(Scheduling& in, const Block& body);

}  // namespace heddle::jit
