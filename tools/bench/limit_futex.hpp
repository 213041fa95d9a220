// The lower bound of waking: a thread asleep in a futex is woken and answers, without further work.
#pragma once

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <thread>

#include "tools/bench/processors.hpp"

namespace heddle::bench {

class FutexSleeper {
 public:
  explicit FutexSleeper(int k) {
    const Unpinned while_starting;
    sleeper_ = std::thread([this, k] { run(k); });
    wake();
    wait();
  }
  FutexSleeper(const FutexSleeper&) = delete;
  FutexSleeper& operator=(const FutexSleeper&) = delete;
  ~FutexSleeper() {
    // relaxed: ordered by the release in wake().
    stopping_.store(true, std::memory_order_relaxed);
    wake();
    sleeper_.join();
  }

  void wake() {
    // release: pairs with the acquire in run().
    call_.fetch_add(1, std::memory_order_release);
    syscall(SYS_futex, &call_, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
  }
  /// Spins until the sleeper has answered; called by the waking thread.
  void wait() const {
    // relaxed: written by this thread.
    const std::uint32_t sent = call_.load(std::memory_order_relaxed);
    // acquire: pairs with the release in run().
    while (answer_.load(std::memory_order_acquire) != sent) spin_pause();
  }

 private:
  void run(int k) {
    pin_this_thread(k);
    for (std::uint32_t seen = 0;;) {
      // acquire: pairs with the release in wake().
      const std::uint32_t now = call_.load(std::memory_order_acquire);
      if (now == seen) {
        syscall(SYS_futex, &call_, FUTEX_WAIT_PRIVATE, seen, nullptr, nullptr, 0);
        continue;
      }
      seen = now;
      // release: pairs with the acquire in wait().
      answer_.store(seen, std::memory_order_release);
      // relaxed: ordered by the acquire above.
      if (stopping_.load(std::memory_order_relaxed)) return;
    }
  }

  alignas(64) std::atomic<std::uint32_t> call_{0};
  alignas(64) std::atomic<std::uint32_t> answer_{0};
  std::atomic<bool> stopping_{false};
  std::thread sleeper_;
};

}  // namespace heddle::bench
