// Values that several iterations or statements share are computed once: before the nest into
// scratch, where the loops that they depend on are loops of their own; before the innermost loop
// that they do not depend on, as a local, where what they read is made by the nest; and before the
// first of the statements that have them in common. Compilers cannot: the stores between may change
// what is loaded, for all they know, and vector code spells out instructions that they do not see
// through. Every value keeps its bits. Pure; any thread.
#pragma once

#include "jit/schedule/scheduling.hpp"

namespace heddle::jit {

/// Fills scratch with costly values that nests would compute anew in many of their iterations.
void store_shared_values(Scheduling& in);
/// Costly values move before the loops that do not change them, as locals.
[[nodiscard]] Block hoist_values(Fresh& fresh, const Block& body);
/// Costly values that statements of a block have in common become locals.
[[nodiscard]] Block share_values(Fresh& fresh, const Block& body);

}  // namespace heddle::jit
