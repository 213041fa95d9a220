// Sleeps and callbacks for scenarios: the sequences of Parker and of Timeline's calls, over the
// shipped Progress. One entry per waiter.
#pragma once

#include "tests/model/explore.hpp"

namespace heddle::model {

/// A task without effect.
inline constexpr sched::TaskOps no_task{
    [](void* /*to*/, void* /*from*/) noexcept {},
    [](void* /*callable*/, Status& /*failure*/) { return true; },
    [](void* /*callable*/) noexcept {}};

/// Parker, with a model's wait in place of the kernel's wait.
class Token {
 public:
  void unpark() { token_.exchange(1, std::memory_order_release); }
  void park() {
    while (token_.exchange(0, std::memory_order_acquire) == 0) pause();
  }

 private:
  Atomic<unsigned> token_;
};

/// Timeline: complete(), call() and wait(); a mutex guards the entries.
template <unsigned slots>
class Waiters {
 public:
  Waiters() { tickets_.fill(nobody); }
  [[nodiscard]] std::uint64_t completed() const { return progress_.completed(); }
  /// Acts as a worker between two tasks: returns whether the worker has looked around.
  bool complete(std::uint64_t ticket) {
    if (!progress_.pass(ticket)) return false;
    if (progress_.look(ticket)) call_back(ticket);
    return true;
  }
  void attract() { progress_.attract(); }
  /// Returns once `ticket` has ended; `slot` is used only by the caller.
  void wait(std::uint64_t ticket, unsigned slot) {
    if (completed() >= ticket) return;
    if (call(ticket, slot)) tokens_[slot].park();
  }

 private:
  void call_back(std::uint64_t ticket) {
    for (unsigned slot = 0; slot < slots; ++slot) {
      mutex_.lock($);
      const bool due = tickets_[slot] <= ticket;
      if (due) {
        tickets_[slot] = nobody;
        progress_.expect_no_sooner_than(first());
      }
      mutex_.unlock($);
      if (due && !omitted(Omission::wake)) tokens_[slot].unpark();
    }
  }
  bool call(std::uint64_t ticket, unsigned slot) {
    mutex_.lock($);
    tickets_[slot] = ticket;
    const bool pending = progress_.expect(first(), ticket) || omitted(Omission::recheck);
    if (!pending) {
      tickets_[slot] = nobody;
      progress_.expect_no_sooner_than(first());
    }
    mutex_.unlock($);
    return pending;
  }
  std::uint64_t first() const { return *std::min_element(tickets_.begin(), tickets_.end()); }

  using Progress = sched::Progress<Env<>, 1>;
  static constexpr std::uint64_t nobody = Progress::nobody;
  Progress progress_;
  rl::mutex mutex_;
  std::array<std::uint64_t, slots> tickets_;  // the awaited tickets; guarded by mutex_
  Token tokens_[slots];
};

}  // namespace heddle::model
