// Fork detection.
#include "scheduler/threads/fork.hpp"

#include <pthread.h>

#include "scheduler/threads/thread_number.hpp"

namespace heddle::sched {

std::atomic<std::uint32_t> fork::generation{0};

void watch_forks() noexcept {
  static const bool installed = [] {
    pthread_atfork(nullptr, nullptr, [] {
      // relaxed: pairs with the load in fork_generation(); the child has one thread when this runs.
      fork::generation.fetch_add(1, std::memory_order_relaxed);
      forget_thread_number();
    });
    return true;
  }();
  static_cast<void>(installed);
}

}  // namespace heddle::sched
