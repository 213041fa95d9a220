// See ledger.hpp.
#include "runtime/ledger.hpp"

namespace heddle::rt {

void Ledger::lock() noexcept {
  if (try_lock_alone()) return;
  // A thread that the child lacks may have been inside; the child has one.
  if (fork_generation_ != sched::fork_generation()) {
    by_mutex_ = false;
    return;
  }
  mutex_.lock();
  // Claimed with the mutex held, so nobody claims it meanwhile.
  if (!bias_.is_unclaimed()) bias_.revoke();
  by_mutex_ = true;
}

void Ledger::claim() noexcept {
  if (by_mutex_) static_cast<void>(bias_.claim(sched::thread_number()));
}

}  // namespace heddle::rt
