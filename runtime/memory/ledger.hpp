// Ledger: one for each virtual device: the lock of what its buffers know of their uses, and of what
// its routines count.
#pragma once

#include "heddle/status.hpp"
#include "scheduler/threads/biased_mutex.hpp"

namespace heddle::rt {

/// A thread that holds one waits for nothing, runs no code of users, and locks no other but in the
/// order of their addresses.
class Ledger : public sched::BiasedMutex {};

/// ok; or unavailable, in a forked child that cannot rely on what it guards. Once it is locked.
[[nodiscard]] inline Status whole(const Ledger& ledger) noexcept {
  if (!ledger.is_torn()) [[likely]]
    return {};
  return Status(ErrorCode::unavailable,
                "forked: a thread of the parent was using this memory when the process was forked, "
                "so that its child cannot tell what is there; use memory of the child's own");
}

}  // namespace heddle::rt
