// Scratch whose axes are exchanged, where fewer nests are transposes then. Pure; any thread.
#pragma once

#include "jit/schedule/scheduling.hpp"

namespace heddle::jit {

/// The statements of the kernel. Scratch of two axes that elementwise nests of two loops store and
/// read, some of them across, lies turned where this leaves fewer transposes: as where
/// transpose(exp(x)) is stored, and read as it is and transposed by one nest, which is a transpose
/// either way. Every element keeps its bits.
[[nodiscard]] Block with_turned_scratch(Scheduling& in, const Block& body);

}  // namespace heddle::jit
