// Fork detection, and the identity of processes.
#include "scheduler/threads/fork.hpp"

#include <pthread.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "scheduler/threads/thread_number.hpp"

namespace heddle::sched {

std::atomic<std::uint32_t> fork::generation{0};
std::atomic<std::uint64_t> fork::process{0};

namespace {
/// Async-signal-safe, because it runs in children of threaded processes too.
void draw_process_identity() noexcept {
  std::uint64_t drawn = 0;
  if (::getrandom(&drawn, sizeof drawn, GRND_NONBLOCK) != sizeof drawn) {
    timespec now{};  // where a sandbox denies getrandom: pids differ at one moment
    ::clock_gettime(CLOCK_REALTIME, &now);
    drawn =
        (static_cast<std::uint64_t>(now.tv_sec) << 30 ^ static_cast<std::uint64_t>(now.tv_nsec)) *
            0x9e3779b97f4a7c15 ^
        static_cast<std::uint64_t>(::getpid());
  }
  // relaxed: pairs with the load in process_identity(): see there.
  fork::process.store(drawn | 1, std::memory_order_relaxed);
}
}  // namespace

void watch_forks() noexcept {
  // Not a static variable: a child would wait for ever for the thread that was initializing it.
  static constinit pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, [] {
    draw_process_identity();
    pthread_atfork(nullptr, nullptr, [] {
      // relaxed: pairs with the load in fork_generation(); the child has a single thread at this
      // point.
      fork::generation.fetch_add(1, std::memory_order_relaxed);
      draw_process_identity();
      forget_thread_number();
    });
  });
}

}  // namespace heddle::sched
