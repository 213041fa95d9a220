// Parker on a futex. The kernel compares the word under its own lock, so a token left between the
// check here and the sleep makes the sleep return at once.
#include "scheduler/threads/parker.hpp"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <climits>

namespace heddle::sched {
namespace {

std::uint32_t* word(std::atomic<std::uint32_t>& token) noexcept {
  static_assert(sizeof(token) == sizeof(std::uint32_t) &&
                std::atomic<std::uint32_t>::is_always_lock_free);
  return reinterpret_cast<std::uint32_t*>(&token);
}

/// The deadline is absolute on CLOCK_MONOTONIC, the clock of steady_clock.
void futex_wait(std::atomic<std::uint32_t>& token, const timespec* deadline) noexcept {
  syscall(SYS_futex, word(token), FUTEX_WAIT_BITSET_PRIVATE, 0u, deadline, nullptr,
          FUTEX_BITSET_MATCH_ANY);
}

}  // namespace

bool Parker::park(std::optional<Clock::time_point> deadline) noexcept {
  timespec until{};
  if (deadline) {
    auto ns =
        std::chrono::duration_cast<std::chrono::nanoseconds>(deadline->time_since_epoch()).count();
    if (ns < 0) ns = 0;
    until.tv_sec = ns / 1'000'000'000;
    until.tv_nsec = ns % 1'000'000'000;
  }
  while (true) {
    // acquire: pairs with the release in unpark(), so the owner sees all writes before the wake.
    if (token_.exchange(0, std::memory_order_acquire) == 1) return true;
    if (deadline && Clock::now() >= *deadline) return false;
    futex_wait(token_, deadline ? &until : nullptr);
  }
}

void Parker::unpark() noexcept {
  // release: pairs with the acquire in park().
  if (token_.exchange(1, std::memory_order_release) == 0) {
    syscall(SYS_futex, word(token_), FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
  }
}

}  // namespace heddle::sched
