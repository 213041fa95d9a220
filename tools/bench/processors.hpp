// Processors of a measurement: the available ones, and the placement of threads. Any thread.
#pragma once

#include <thread>
#include <vector>

namespace heddle::bench {

/// Numbers of the processors that the process could use when it started, at least one.
[[nodiscard]] const std::vector<int>& processors();

/// Binds the calling thread to the k-th of these processors (modulo their number).
void pin_this_thread(int k);

/// While it lives, the host's thread and the threads that it starts may run on all processors, or
/// on all except the host's own where there are several; afterwards the host's thread is bound to
/// its own again. heddle places its threads on the processors that the opening thread may use.
class Unpinned {
 public:
  enum class Where { anywhere, beside_host };
  explicit Unpinned(Where where = Where::anywhere);
  Unpinned(const Unpinned&) = delete;
  Unpinned& operator=(const Unpinned&) = delete;
  ~Unpinned();
};

/// Placement of the roles: the host thread on the first processor, the worker on the second.
inline constexpr int host_processor = 0;
inline constexpr int worker_processor = 1;

/// The processor of the k-th producer: not the worker's processor, if there are several.
[[nodiscard]] int producer_processor(int k);
/// The processor of the k-th worker: not the host's processor, if there are several.
[[nodiscard]] int spread_processor(int k);

/// The call's result on that processor, while the host sleeps.
template <class F>
double timed_on(int processor, const F& call) {
  double ns = 0;
  std::thread thread([&] {
    pin_this_thread(processor);
    ns = call();
  });
  thread.join();
  return ns;
}

/// How many workers may run beside the host's thread without taking turns, at least one.
[[nodiscard]] int workers_beside_host();

inline void spin_pause() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/// For the bare limits where threads may outnumber processors: lets the awaited thread run.
inline void spin_or_yield(int& spins) {
  constexpr int spins_max = 1000;
  if (++spins < spins_max) {
    spin_pause();
  } else {
    std::this_thread::yield();
  }
}

}  // namespace heddle::bench
