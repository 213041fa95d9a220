// A number for each submitting thread: never reused, and a forked child's thread gets a new one. A
// thread with the number of a device's owner is therefore that thread, in the process of that
// device.
#pragma once

#include <cstdint>

namespace heddle::sched {

inline constexpr std::uint64_t no_thread_number = 0;

namespace thread {
// initial-exec: access without a call, for a few bytes of static TLS.
[[gnu::tls_model("initial-exec"),
  gnu::visibility("hidden")]] extern thread_local constinit std::uint64_t number;
}  // namespace thread

/// The calling thread's number; no_thread_number until its first call of thread_number(). Not for
/// functions that suspend earlier: they may continue on another thread with the address of the
/// first thread's variable.
[[nodiscard]] [[gnu::always_inline]] inline std::uint64_t known_thread_number() noexcept {
  return thread::number;
}
/// The calling thread's number, drawn at the first call. Not inlined: see above.
[[nodiscard]] std::uint64_t thread_number() noexcept;
/// Called in a forked child, by its only thread.
void forget_thread_number() noexcept;

}  // namespace heddle::sched
