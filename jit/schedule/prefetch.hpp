// Rows ahead: where several loops go over the rows of a large input, one row after another, the
// first of them waits for memory, and the others find the row in the cache. The busiest of those
// fetches the next row meanwhile. Pure; any thread.
#pragma once

#include "jit/schedule/scheduling.hpp"

namespace heddle::jit {

/// Where loops go over the same rows of a large input, all but the first find them in the cache:
/// one of these fetches the next row.
[[nodiscard]] Block fetch_rows_ahead(Scheduling& in, const Block& body);

}  // namespace heddle::jit
