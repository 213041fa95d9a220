// See biased_mutex.hpp.
#include "scheduler/threads/biased_mutex.hpp"

namespace heddle::sched {

void BiasedMutex::lock_with_others() noexcept {
  // A thread that does not exist in the child may have been inside.
  if (is_inherited()) return lock_in_child();
  mutex_.lock();
  // Threads claim with the mutex held, so no thread claims the bias meanwhile.
  if (!bias_.is_unclaimed()) bias_.revoke();
  by_ = By::mutex;
}

void BiasedMutex::lock_in_child() noexcept {
  const bool is_child = fork_generation() == fork_generation_ + 1;
  if (is_child) of_children_.lock();
  // In a child's child, a thread of the child may have been inside.
  torn_ = is_torn() || (!is_child && by_ == By::of_children);
  bias_.leave();
  by_ = is_child ? By::of_children : By::bias;
}

}  // namespace heddle::sched
