// An asymmetric pair of barriers. Between a light barrier in one thread and a heavy barrier in
// another thread, both act as full fences: if two threads each write, pass their barrier and read,
// at least one thread sees the other's write. Light barriers cost only the compiler's freedom; a
// heavy barrier makes every running thread of the process pass a fence (membarrier, private
// expedited: Linux 4.14), for some microseconds.
//
// Where the kernel lacks membarrier, neither barrier orders accesses, and protocols use locked
// accesses instead: asymmetric_barriers() tells.
//
// The barriers order accesses; data handed to another thread still needs a release and an acquire.
#pragma once

#include <atomic>

namespace heddle::sched {

/// Decides once per process whether barriers are asymmetric. Called before any thread passes a
/// barrier.
void prepare_barriers() noexcept;

namespace barrier {
extern bool asymmetric;  // written by prepare_barriers()
}
[[nodiscard]] inline bool asymmetric_barriers() noexcept { return barrier::asymmetric; }

/// Restricts only the compiler.
inline void light_barrier() noexcept { std::atomic_signal_fence(std::memory_order_seq_cst); }
void heavy_barrier() noexcept;

}  // namespace heddle::sched
