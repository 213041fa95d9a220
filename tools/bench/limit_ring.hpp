// The floor of submitting: a bare ring whose slots carry a flag, one producer, one spinning worker.
// No events, no failure, no bound on waiting, no parking: what is left when all that is taken away.
#pragma once

#include <array>
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

class RingWorker {
 public:
  static constexpr const char* name = "bare flag ring";
  static constexpr Kind kind = Kind::limit;

  explicit RingWorker(int k) : worker_([this, k] { run(k); }) {}
  RingWorker(const RingWorker&) = delete;
  RingWorker& operator=(const RingWorker&) = delete;
  ~RingWorker() {
    submit([this] { stopping_ = true; });
    worker_.join();
  }

  /// One thread at a time.
  template <class F>
  void submit(F f) {
    static_assert(sizeof(F) <= sizeof(Slot::callable) && std::is_trivially_copyable_v<F>);
    Slot& slot = slots_[next_++ % capacity];
    // acquire: pairs with the release in run(): the task before in this slot has ended.
    while (slot.full.load(std::memory_order_acquire) != 0) spin_pause();
    slot.invoke = [](void* callable) { (*static_cast<F*>(callable))(); };
    ::new (static_cast<void*>(slot.callable)) F(f);
    // release: pairs with the acquire in run().
    slot.full.store(1, std::memory_order_release);
  }
  void wait_ended(std::uint64_t count) const {
    const Slot& last = slots_[(count + capacity - 1) % capacity];
    // acquire: pairs with the release in run().
    while (last.full.load(std::memory_order_acquire) != 0) spin_pause();
  }

 private:
  static constexpr std::size_t capacity = 4096;  // as a heddle device
  struct alignas(64) Slot {
    std::atomic<std::uint32_t> full{0};
    void (*invoke)(void*) = nullptr;
    alignas(16) std::byte callable[48];
  };

  void run(int k) {
    pin_this_thread(k);
    for (std::uint64_t at = 0; !stopping_; ++at) {
      Slot& slot = slots_[at % capacity];
      // acquire: pairs with the release in submit().
      while (slot.full.load(std::memory_order_acquire) == 0) spin_pause();
      slot.invoke(slot.callable);
      // release: pairs with the acquires in submit() and wait_ended().
      slot.full.store(0, std::memory_order_release);
    }
  }

  const std::unique_ptr<Slot[]> slots_ = std::make_unique<Slot[]>(capacity);
  std::uint64_t next_ = 0;  // the producer's
  bool stopping_ = false;   // the worker's
  std::thread worker_;
};

}  // namespace heddle::bench
