// The lower bound of submitting from several threads: a bare ring with places assigned by
// fetch_add, and one spinning worker. Flags show the turn; the count of ended tasks of
// limit_ring.hpp would be slower here. A thread that waits for long yields: with more producers
// than processors, a spinning producer would keep the awaited thread off its processor.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <thread>
#include <type_traits>

#include "tools/bench/harness.hpp"
#include "tools/bench/processors.hpp"

namespace heddle::bench {

class SharedRingWorker {
 public:
  static constexpr const char* name = "bare fetch_add ring";
  static constexpr Kind kind = Kind::limit;

  explicit SharedRingWorker(int k) : worker_([this, k] { run(k); }) {}
  SharedRingWorker(const SharedRingWorker&) = delete;
  SharedRingWorker& operator=(const SharedRingWorker&) = delete;
  ~SharedRingWorker() {
    submit([this] { stopping_ = true; });
    worker_.join();
  }

  /// Any thread.
  template <class F>
  void submit(F f) {
    static_assert(sizeof(F) <= sizeof(Slot::callable) && std::is_trivially_copyable_v<F>);
    // relaxed: only makes the number unique; the slot orders the contents.
    const std::uint64_t place = next_.fetch_add(1, std::memory_order_relaxed);
    Slot& slot = slots_[place % capacity];
    // acquire: pairs with the release in run(): the task before in this slot has ended.
    await(slot.turn, empty(place));
    slot.invoke = [](void* callable) { (*static_cast<F*>(callable))(); };
    ::new (static_cast<void*>(slot.callable)) F(f);
    // release: pairs with the acquire in run().
    slot.turn.store(full(place), std::memory_order_release);
  }
  void wait_ended(std::uint64_t count) const {
    const std::uint64_t last = count - 1;
    await(slots_[last % capacity].turn, empty(last + capacity));
  }

 private:
  static constexpr std::size_t capacity = 4096;  // as in a heddle device
  struct alignas(64) Slot {
    std::atomic<std::uint64_t> turn{0};
    void (*invoke)(void*) = nullptr;
    alignas(16) std::byte callable[32];
  };
  static constexpr std::uint64_t empty(std::uint64_t place) { return place / capacity * 2; }
  static constexpr std::uint64_t full(std::uint64_t place) { return empty(place) + 1; }

  static void await(const std::atomic<std::uint64_t>& turn, std::uint64_t wanted) {
    // acquire: pairs with the releases in submit() and run().
    for (int spins = 0; turn.load(std::memory_order_acquire) != wanted;) spin_or_yield(spins);
  }

  void run(int k) {
    pin_this_thread(k);
    for (std::uint64_t place = 0; !stopping_; ++place) {
      Slot& slot = slots_[place % capacity];
      await(slot.turn, full(place));
      slot.invoke(slot.callable);
      // release: pairs with the acquire in await().
      slot.turn.store(empty(place + capacity), std::memory_order_release);
    }
  }

  const std::unique_ptr<Slot[]> slots_ = std::make_unique<Slot[]>(capacity);
  alignas(64) std::atomic<std::uint64_t> next_{0};
  alignas(64) bool stopping_ = false;  // used by the worker
  std::thread worker_;
};

}  // namespace heddle::bench
