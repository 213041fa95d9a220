// Reductions of rows whose terms take a function such as exp: the terms of a row are computed
// first, as elementwise code is, beside other functions of the row. Pure; any thread.
#pragma once

#include <functional>

#include "jit/schedule/scheduling.hpp"

namespace heddle::jit {

/// The nests of the kernel, with the terms of each such reduction in a nest and in scratch of
/// their own, for fusion to join with the next nests that read the same; the results are the same.
/// Nests that `stays_alone` is true for stay.
[[nodiscard]] Block with_costly_terms_apart(Scheduling& in, const Block& body,
                                            const std::function<bool(const StmtPtr&)>& stays_alone);

}  // namespace heddle::jit
