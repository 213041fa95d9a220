// The lower bound of submitting: a bare ring whose slots carry the number of their task as flag,
// one producer, one spinning worker. The producer reads the worker's count only when the ring may
// be full, so one line moves per task. The ring has no events, no failure, no waiting and no
// parking.
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

class RingWorker {
 public:
  static constexpr const char* name = "bare flag ring";
  static constexpr Kind kind = Kind::limit;

  /// `capacity`: tasks outstanding at most, a power of two; default: as in a heddle device.
  explicit RingWorker(int k, std::uint32_t capacity = 4096)
      : capacity_(capacity), worker_([this, k] { run(k); }) {}
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
    ++submitted_;
    // acquire: pairs with the release in run(): the task before in this slot has ended.
    while (submitted_ - seen_ended_ > capacity_)
      seen_ended_ = ended_.load(std::memory_order_acquire);
    Slot& slot = slots_[submitted_ & (capacity_ - 1)];
    slot.invoke = [](void* callable) { (*static_cast<F*>(callable))(); };
    ::new (static_cast<void*>(slot.callable)) F(f);
    // release: pairs with the acquire in run().
    slot.flag.store(submitted_, std::memory_order_release);
  }
  void wait_ended(std::uint64_t count) const {
    // acquire: pairs with the release in run().
    while (ended_.load(std::memory_order_acquire) < count) spin_pause();
  }

 private:
  struct alignas(64) Slot {
    std::atomic<std::uint64_t> flag{0};
    void (*invoke)(void*) = nullptr;
    alignas(16) std::byte callable[48];
  };

  void run(int k) {
    pin_this_thread(k);
    for (std::uint64_t at = 1; !stopping_; ++at) {
      Slot& slot = slots_[at & (capacity_ - 1)];
      // acquire: pairs with the release in submit().
      while (slot.flag.load(std::memory_order_acquire) != at) spin_pause();
      slot.invoke(slot.callable);
      // release: pairs with the acquires in submit() and wait_ended().
      ended_.store(at, std::memory_order_release);
    }
  }

  const std::uint64_t capacity_;
  const std::unique_ptr<Slot[]> slots_ = std::make_unique<Slot[]>(capacity_);
  // Used by the producer.
  alignas(64) std::uint64_t submitted_ = 0;
  std::uint64_t seen_ended_ = 0;
  // Used by the worker.
  alignas(64) std::atomic<std::uint64_t> ended_{0};
  bool stopping_ = false;
  std::thread worker_;
};

}  // namespace heddle::bench
