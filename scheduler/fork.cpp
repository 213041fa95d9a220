// Fork detection.
#include "scheduler/fork.hpp"

#include <pthread.h>

#include <atomic>

namespace heddle::sched {
namespace {
std::atomic<std::uint32_t> generation{0};
}  // namespace

std::uint32_t fork_generation() noexcept {
  static const bool installed = [] {
    // relaxed: pairs with the load below; the child has one thread when this runs.
    pthread_atfork(nullptr, nullptr, [] { generation.fetch_add(1, std::memory_order_relaxed); });
    return true;
  }();
  static_cast<void>(installed);
  // relaxed: pairs with the count in the child handler, made by this very thread's ancestor.
  return generation.load(std::memory_order_relaxed);
}

}  // namespace heddle::sched
