// A number for each thread that submits: never reused, and a forked child's thread is given a new
// one, so a thread with the number of a device's owner is that thread, in the process of that
// device.
#pragma once

#include <cstdint>

namespace heddle::sched {

inline constexpr std::uint64_t no_thread_number = 0;

namespace thread {
// initial-exec: a few bytes, for which no call is worth it.
[[gnu::tls_model("initial-exec"),
  gnu::visibility("hidden")]] extern thread_local constinit std::uint64_t number;
}  // namespace thread

/// The calling thread's number; no_thread_number until it first asked for one. Not for functions
/// that suspend before: they may go on in another thread with the address of the first one's
/// variable.
[[nodiscard]] [[gnu::always_inline]] inline std::uint64_t known_thread_number() noexcept {
  return thread::number;
}
/// The calling thread's number, given to it at the first call. Not inlined: see above.
[[nodiscard]] std::uint64_t thread_number() noexcept;
/// In a forked child, by its one thread.
void forget_thread_number() noexcept;

}  // namespace heddle::sched
