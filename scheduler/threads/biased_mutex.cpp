// See biased_mutex.hpp.
#include "scheduler/threads/biased_mutex.hpp"

namespace heddle::sched {

void BiasedMutex::lock() noexcept {
  if (try_lock_alone()) return;
  // A thread that the child lacks may have been inside; the child has one.
  if (is_inherited()) {
    torn_ = is_torn();
    by_mutex_ = false;
    return;
  }
  mutex_.lock();
  // Claimed with the mutex held, so nobody claims it meanwhile.
  if (!bias_.is_unclaimed()) bias_.revoke();
  by_mutex_ = true;
}

void BiasedMutex::claim() noexcept {
  if (by_mutex_) static_cast<void>(bias_.claim(thread_number()));
}

}  // namespace heddle::sched
