// Ledger: the lock of a virtual device. Guards the last uses of the device's buffers, and the
// counts of launches of its routines.
#pragma once

#include "heddle/status.hpp"
#include "scheduler/threads/biased_mutex.hpp"

namespace heddle::rt {

/// A thread that holds a ledger does not wait, runs no user code, and locks further ledgers only in
/// address order.
class Ledger : public sched::BiasedMutex {};

/// ok; or unavailable, in a forked child, if the guarded state may be half written. With the ledger
/// locked.
[[nodiscard]] inline Status whole(const Ledger& ledger) noexcept {
  if (!ledger.is_torn()) [[likely]]
    return {};
  return Status(ErrorCode::unavailable,
                "forked: a thread of the parent was using this memory when the process was forked, "
                "so that its child cannot tell what is there; use memory of the child's own");
}

}  // namespace heddle::rt
