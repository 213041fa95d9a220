// An asymmetric pair of barriers. Between a light one in one thread and a heavy one in another,
// each acts as a full fence: of two threads that each write, pass their barrier and read, at least
// one sees the other's write. Light ones cost nothing but the compiler's freedom; the heavy one
// makes every running thread of the process pass a fence (membarrier, private expedited:
// Linux 4.14), for some microseconds.
//
// Where the kernel has none, neither orders anything, and what would use them does without, by
// locked accesses: asymmetric_barriers() tells.
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
[[nodiscard]] inline bool asymmetric_barriers() noexcept { return barrier::asymmetric; }

/// Binds the compiler alone.
inline void light_barrier() noexcept { std::atomic_signal_fence(std::memory_order_seq_cst); }
void heavy_barrier() noexcept;

}  // namespace heddle::sched
