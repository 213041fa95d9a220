// The lower bound of signalling: two pinned threads, one flag per direction, each flag on its own
// cache line.
#pragma once

#include <atomic>
#include <cstdint>
#include <thread>

#include "tools/bench/processors.hpp"

namespace heddle::bench {

class PingPong {
 public:
  /// The partner spins on the k-th processor until the end.
  explicit PingPong(int k) {
    const Unpinned while_starting;
    partner_ = std::thread([this, k] { answer(k); });
  }
  PingPong(const PingPong&) = delete;
  PingPong& operator=(const PingPong&) = delete;
  ~PingPong() {
    // release: pairs with the acquire in answer().
    ping_.store(stop, std::memory_order_release);
    partner_.join();
  }

  void round_trip() {
    ++sent_;
    // release: pairs with the acquire in answer().
    ping_.store(sent_, std::memory_order_release);
    // acquire: pairs with the release in answer().
    while (pong_.load(std::memory_order_acquire) != sent_) spin_pause();
  }

 private:
  static constexpr std::uint64_t stop = ~std::uint64_t{0};

  void answer(int k) {
    pin_this_thread(k);
    for (std::uint64_t seen = 0;;) {
      // acquire: pairs with the releases in round_trip() and the destructor.
      const std::uint64_t now = ping_.load(std::memory_order_acquire);
      if (now == stop) return;
      if (now == seen) {
        spin_pause();
        continue;
      }
      seen = now;
      // release: pairs with the acquire in round_trip().
      pong_.store(now, std::memory_order_release);
    }
  }

  alignas(64) std::atomic<std::uint64_t> ping_{0};
  alignas(64) std::atomic<std::uint64_t> pong_{0};
  alignas(64) std::uint64_t sent_ = 0;
  std::thread partner_;
};

}  // namespace heddle::bench
