// Prefetching of rows: where several loops go over the same row of a large input, one after
// another, the first waits for memory, and the others find the row in the cache. The most costly of
// the others prefetches the next row in the meantime. Pure; any thread.
#pragma once

#include "jit/schedule/scheduling.hpp"

namespace heddle::jit {

/// Adds prefetches of the next row where several loops go over the same rows of a large input, to
/// the most costly loop after the first.
[[nodiscard]] Block fetch_rows_ahead(Scheduling& in, const Block& body);

}  // namespace heddle::jit
