// Assignment: what one thread, the helper, serves, as others tell it; and who lets go of a thing
// that is held for the helper from before it is told of it. Told again before it has looked, the
// helper never learns of the thing between: a bit says whether it has.
//
//   assigner: hold the next thing           helper: take(): sets the bit, by an exchange
//             exchange the word                     serves while the word stays as it is
//             bit of the one before:                lets go of what it took
//               set: the helper lets go
//               else: the assigner does
#pragma once

#include <cstdint>

#include "scheduler/atomic.hpp"

namespace heddle::sched {

template <class T, class Env = StdEnv>
class Assignment {
 public:
  /// The helper serves `next` from its next look on; null: nothing. One thread at a time. true: the
  /// caller lets go of what was assigned before, as the helper never took it.
  [[nodiscard]] bool assign(T* next) noexcept {
    const auto to = reinterpret_cast<std::uintptr_t>(next);
    // release: pairs with the acquire in take(), so that the helper sees the thing as it was made.
    const std::uintptr_t before = word_.exchange(to, std::memory_order_release);
    return before != 0 && (before & taken) == 0;
  }

  /// What to serve; null: nothing. The helper lets go of it when stays() is false. The helper, when
  /// it serves nothing.
  [[nodiscard]] T* take() noexcept {
    // acquire: pairs with the release in assign().
    taken_ = word_.fetch_or(taken, std::memory_order_acquire) | taken;
    return reinterpret_cast<T*>(taken_ & ~taken);
  }
  /// Whether the helper is to go on with what it took. The helper.
  [[nodiscard]] bool stays() const noexcept {
    // relaxed: carries nothing; what comes next is taken by take().
    return word_.load(std::memory_order_relaxed) == taken_;
  }

 private:
  static constexpr std::uintptr_t taken = 1;  // things are aligned to 2 at least

  typename Env::template atomic<std::uintptr_t> word_{0};
  std::uintptr_t taken_ = 0;  // the helper's
};

}  // namespace heddle::sched
