// See biased_mutex.hpp.
#include "scheduler/threads/biased_mutex.hpp"

namespace heddle::sched {

void BiasedMutex::lock() noexcept {
  if (try_lock_alone()) return;
  // A thread that does not exist in the child may have been inside; the child has one thread.
  if (is_inherited()) {
    torn_ = is_torn();
    by_mutex_ = false;
    return;
  }
  mutex_.lock();
  // Threads claim with the mutex held, so no thread claims the bias meanwhile.
  if (!bias_.is_unclaimed()) bias_.revoke();
  by_mutex_ = true;
}

void BiasedMutex::claim() noexcept {
  if (by_mutex_) static_cast<void>(bias_.claim(thread_number()));
}

}  // namespace heddle::sched
