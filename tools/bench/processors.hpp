// Processors of a measurement: which there are, and which thread runs where. Any thread.
#pragma once

#include <thread>
#include <vector>

namespace heddle::bench {

/// Numbers of the processors that the process could use when it started, at least one.
[[nodiscard]] const std::vector<int>& processors();

/// Binds the calling thread to the k-th of them (modulo their number).
void pin_this_thread(int k);

/// While it lives, the host's thread may run on all of them, or on all but its own as long as there
/// are others, and so may what it starts; then on its own again. heddle places its threads on
/// processors that the thread that opens a device may use.
class Unpinned {
 public:
  enum class Where { anywhere, beside_host };
  explicit Unpinned(Where where = Where::anywhere);
  Unpinned(const Unpinned&) = delete;
  Unpinned& operator=(const Unpinned&) = delete;
  ~Unpinned();
};

/// Where the roles of a measurement run: the host thread on the first processor, the worker on the
/// second.
inline constexpr int host_processor = 0;
inline constexpr int worker_processor = 1;

/// Where the k-th of several producers runs: not on the worker's processor, as long as there are
/// others.
[[nodiscard]] int producer_processor(int k);
/// Where the k-th of several workers runs: not on the host's processor, as long as there are
/// others.
[[nodiscard]] int spread_processor(int k);

/// What the call gives on that processor, while the host sleeps.
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

/// For the bare limits where threads may outnumber processors: whoever is waited for gets to run.
inline void spin_or_yield(int& spins) {
  constexpr int spins_max = 1000;
  if (++spins < spins_max) {
    spin_pause();
  } else {
    std::this_thread::yield();
  }
}

}  // namespace heddle::bench
