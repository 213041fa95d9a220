// Numbers of threads.
#include "scheduler/threads/thread_number.hpp"

#include <atomic>

namespace heddle::sched {

namespace thread {
thread_local constinit std::uint64_t number = no_thread_number;
}

[[gnu::noinline]] std::uint64_t thread_number() noexcept {
  static std::atomic<std::uint64_t> last{no_thread_number};
  // relaxed: pairs with the same operation of other threads; the numbers only have to differ.
  if (thread::number == no_thread_number)
    thread::number = last.fetch_add(1, std::memory_order_relaxed) + 1;
  return thread::number;
}

[[gnu::noinline]] void forget_thread_number() noexcept { thread::number = no_thread_number; }

}  // namespace heddle::sched
