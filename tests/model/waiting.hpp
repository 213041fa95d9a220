// What scenarios need to sleep and to be called back: the sequences of Parker and of Timeline's
// calls, over the shipped Progress. One entry a waiter.
#pragma once

#include "tests/model/model.hpp"

namespace heddle::model {

/// Parker, with a wait in the place of the kernel's.
class Token {
 public:
  void unpark() { token_.exchange(1, std::memory_order_release); }
  void park() {
    while (token_.exchange(0, std::memory_order_acquire) == 0) pause();
  }

 private:
  Atomic<unsigned> token_;
};

/// Timeline: complete(), call() and wait(), whose entries a mutex guards.
template <unsigned slots>
class Waiters {
 public:
  [[nodiscard]] std::uint64_t completed() const { return progress_.completed(); }
  void complete(std::uint64_t ticket) {
    if (progress_.advance(ticket)) call_back(ticket);
  }
  /// Returns once `ticket` has ended; `slot` is the caller's alone.
  void wait(std::uint64_t ticket, unsigned slot) {
    if (completed() >= ticket) return;
    if (call(ticket, slot)) tokens_[slot].park();
  }

 private:
  void call_back(std::uint64_t ticket) {
    for (unsigned slot = 0; slot < slots; ++slot) {
      mutex_.lock($);
      const bool due = tickets_[slot] != 0 && tickets_[slot] <= ticket;
      if (due) {
        tickets_[slot] = 0;
        progress_.remove_waiter();
      }
      mutex_.unlock($);
      if (due && !omitted(Omission::wake)) tokens_[slot].unpark();
    }
  }
  bool call(std::uint64_t ticket, unsigned slot) {
    mutex_.lock($);
    tickets_[slot] = ticket;
    const bool pending = progress_.add_waiter(ticket) || omitted(Omission::recheck);
    if (!pending) {
      tickets_[slot] = 0;
      progress_.remove_waiter();
    }
    mutex_.unlock($);
    return pending;
  }

  sched::Progress<Env<>, 1> progress_;
  rl::mutex mutex_;
  std::uint64_t tickets_[slots] = {};  // 0: nobody waits here
  Token tokens_[slots];
};

}  // namespace heddle::model
