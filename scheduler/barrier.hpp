// An asymmetric pair of barriers. Between a light one in one thread and a heavy one in another,
// each acts as a full fence: of two threads that each write, pass their barrier and read, at least
// one sees the other's write. Light ones cost nothing but the compiler's freedom; the heavy one
// makes every running thread of the process pass a fence (membarrier, private expedited:
// Linux 4.14), for some microseconds. Where the kernel has none, both are full fences.
//
// They order accesses; what one thread hands to another still travels by a release and an acquire.
#pragma once

#include <atomic>

namespace heddle::sched {

/// Decides once per process which of the two it is. Before any thread passes a barrier.
void prepare_barriers() noexcept;

namespace barrier {
extern bool asymmetric;  // written by prepare_barriers()
}

inline void full_fence() noexcept {
#if defined(__x86_64__)
  asm volatile("lock orl $0, (%%rsp)" ::: "memory", "cc");
#elif defined(__aarch64__)
  asm volatile("dmb ish" ::: "memory");
#else
  __sync_synchronize();
#endif
}

inline void light_barrier() noexcept {
  if (barrier::asymmetric) [[likely]] {
    // Binds the compiler alone; pairs with the membarrier in heavy_barrier().
    std::atomic_signal_fence(std::memory_order_seq_cst);
  } else {
    full_fence();
  }
}

void heavy_barrier() noexcept;

}  // namespace heddle::sched
