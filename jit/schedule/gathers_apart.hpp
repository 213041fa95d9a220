// Costly functions of elements at computed positions, as of exp(take(x, k)): the elements first,
// one by one, and then the functions, in vectors. Pure; any thread.
#pragma once

#include "jit/schedule/scheduling.hpp"

namespace heddle::jit {

/// The nests of the kernel, with the elements of each such nest in a nest and in scratch of their
/// own. The results are the same. Nests whose rows at a position hold vectors stay.
[[nodiscard]] Block with_gathers_apart(Scheduling& in, const Block& body);

}  // namespace heddle::jit
