// Fork detection.
#include "scheduler/fork.hpp"

#include <pthread.h>

namespace heddle::sched {

std::atomic<std::uint32_t> fork::generation{0};

void set_submits_traced(bool traced) noexcept {
  // relaxed: pairs with the load in submits_are_traced(); orders nothing.
  constexpr auto order = std::memory_order_relaxed;
  if (traced) {
    fork::generation.fetch_or(fork::traced_bit, order);
  } else {
    fork::generation.fetch_and(~fork::traced_bit, order);
  }
}

void watch_forks() noexcept {
  static const bool installed = [] {
    pthread_atfork(nullptr, nullptr, [] {
      // relaxed: pairs with the load in fork_generation(); the child has one thread when this runs.
      fork::generation.fetch_add(2, std::memory_order_relaxed);
    });
    return true;
  }();
  static_cast<void>(installed);
}

}  // namespace heddle::sched
