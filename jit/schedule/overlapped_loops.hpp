// Two loops of a block of rows that use different units of a processor, as rows read at positions
// and functions of these rows: one loop, where the first is some rows ahead. Fusion with a shift,
// after Manjikian and Abdelrahman, "Fusion of Loops for Parallelism and Locality", 1997. Pure; any
// thread.
#pragma once

#include "jit/schedule/scheduling.hpp"

namespace heddle::jit {

/// Fuses, inside other loops, a loop that stores a row of scratch read at a position with the next
/// loop, if that reads some of these rows in each iteration. What is stored in parts and loaded as
/// vectors is in the cache by then, and quotients and roots are computed while rows are read.
[[nodiscard]] Block with_overlapped_loops(Fresh& fresh, const Block& body);

}  // namespace heddle::jit
