// Assignment: the object that one thread, the helper, serves, as assigned by other threads; and the
// decision who releases the object. An assigner acquires a hold on an object before it assigns the
// object. If a second assignment comes before the helper has looked, the helper never learns of the
// first object: a bit says whether the helper has taken the object.
//
//   assigner: hold the next object         helper: take(): sets the bit, by an exchange
//             exchange the word                     serves while the word stays the same
//             bit of the previous object:           releases the object that it took
//               set: the helper releases
//               not set: the assigner releases
#pragma once

#include <cstdint>

#include "scheduler/atomic.hpp"

namespace heddle::sched {

template <class T, class Env = StdEnv>
class Assignment {
 public:
  /// The helper serves `next` from its next look on; null: no object. One assigner at a time. true:
  /// the caller must release the previous object, which the helper never took.
  [[nodiscard]] bool assign(T* next) noexcept {
    const auto to = reinterpret_cast<std::uintptr_t>(next);
    // release: pairs with the acquire in take(), so that the helper sees the object fully
    // constructed.
    const std::uintptr_t before = word_.exchange(to, std::memory_order_release);
    return before != 0 && (before & taken) == 0;
  }

  /// The object to serve; null: none. The helper releases the object once stays() is false. Called
  /// by the helper while it serves no object.
  [[nodiscard]] T* take() noexcept {
    // acquire: pairs with the release in assign().
    taken_ = word_.fetch_or(taken, std::memory_order_acquire) | taken;
    return reinterpret_cast<T*>(taken_ & ~taken);
  }
  /// Whether the helper must continue with the object that it took. Called by the helper.
  [[nodiscard]] bool stays() const noexcept {
    // relaxed: the load carries no data; take() acquires the next object.
    return word_.load(std::memory_order_relaxed) == taken_;
  }

 private:
  static constexpr std::uintptr_t taken = 1;  // objects are aligned to at least 2

  typename Env::template atomic<std::uintptr_t> word_{0};
  std::uintptr_t taken_ = 0;  // owned by the helper
};

}  // namespace heddle::sched
