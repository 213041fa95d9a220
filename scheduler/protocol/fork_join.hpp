// ForkJoin: one thread, the owner, publishes a job of numbered parts; it and any helpers claim them
// one by one, and the owner goes on once all have ended. Who is slow holds up the part that it has.
//
//   owner: try_begin()                     helper: left > 0? claim(): left -= 1, and it was > 0
//          job, then left = parts                  reads the job; runs the part
//          claims, too                             claims the next, or
//          waits until ended says all              ended += parts that it ran
//
// `left` counts down and needs no number of the job beside it: what a helper saw before its claim
// decides only whether it tries. A claim that succeeds is one of the job that is published then,
// however long the helper was away, and that job's fields stay until the part has ended. A claim
// that fails leaves `left` below 0, by one for each thread at most, until the next job's store.
#pragma once

#include <cstdint>

#include "scheduler/atomic.hpp"
#include "scheduler/tuning.hpp"

namespace heddle::sched {

/// `Job` is copied in by assignment.
template <class Job, class Env = StdEnv>
class ForkJoin {
 public:
  /// true: the caller is the owner until finish(). Any thread.
  [[nodiscard]] bool try_begin() noexcept {
    // relaxed: a look first, as the exchange would take the line away from the owner.
    if (busy_.load(std::memory_order_relaxed)) return false;
    // acquire: pairs with the release in finish(): the owner before has done with all below.
    return !busy_.exchange(true, std::memory_order_acquire);
  }
  /// The owner; once. `parts` can be claimed from here on.
  void publish(const Job& job, std::uint32_t parts) noexcept {
    // relaxed: nothing has changed it since the owner before saw the last part end.
    base_ = ended_.load(std::memory_order_relaxed);
    job_ = job;
    // release: pairs with the acquire in claim(), directly or through the claims between.
    left_.store(parts, std::memory_order_release);
  }
  /// The owner: all parts have ended.
  void finish() noexcept {
    // release: pairs with the acquire in try_begin().
    busy_.store(false, std::memory_order_release);
  }

  /// Whether claim() may find a part. Any thread.
  [[nodiscard]] bool is_open() const noexcept {
    // relaxed: claim() tells.
    return left_.load(std::memory_order_relaxed) > 0;
  }
  /// Claims a part: it is the n-th from the last. 0: there is none; then the caller tries again
  /// only where is_open(). Any thread.
  [[nodiscard]] std::uint32_t claim() noexcept {
    // acquire: pairs with the release in publish().
    const std::int64_t left = left_.fetch_sub(1, std::memory_order_acquire);
    return left > 0 ? static_cast<std::uint32_t>(left) : 0;
  }
  /// Claims all that are left, to drop them. Who has a part, or the owner.
  [[nodiscard]] std::uint32_t claim_rest() noexcept {
    // relaxed: the caller knows the job, and reads nothing for what it drops.
    const std::int64_t left = left_.exchange(0, std::memory_order_relaxed);
    return left > 0 ? static_cast<std::uint32_t>(left) : 0;
  }
  /// Between a claim that succeeded and its end().
  [[nodiscard]] const Job& job() const noexcept { return job_; }

  /// Parts that this helper claimed have ended, `dropped` of them without having run; the last
  /// thing that it does for them. true: the owner sleeps, or is about to: the caller wakes it.
  [[nodiscard]] bool end(std::uint32_t parts, std::uint32_t dropped) noexcept {
    // relaxed: the next line carries it.
    if (dropped != 0) dropped_.fetch_add(dropped, std::memory_order_relaxed);
    // release: pairs with the acquires in ended() and sleep().
    return (ended_.fetch_add(parts * one_part, std::memory_order_release) & sleeping) != 0;
  }

  /// How many parts helpers have ended of those that were published. The owner.
  [[nodiscard]] std::uint32_t ended() const noexcept {
    // acquire: pairs with the release in end().
    return count(ended_.load(std::memory_order_acquire));
  }
  /// The owner is about to sleep until somebody ended something; it is to look at the result, as
  /// ended(), once more. Both sides exchange one word, so one sees the other.
  [[nodiscard]] std::uint32_t sleep() noexcept {
    // acquire: as in ended().
    return count(ended_.fetch_or(sleeping, std::memory_order_acquire));
  }
  /// The owner is up.
  void wake() noexcept {
    // relaxed: carries nothing.
    ended_.fetch_and(~sleeping, std::memory_order_relaxed);
  }
  /// How many parts helpers have dropped. The owner, once all have ended.
  [[nodiscard]] std::uint32_t take_dropped() noexcept {
    // relaxed, both: helpers have ended what they counted here, and the next to count have claimed
    // a part of the next job.
    const std::uint32_t dropped = dropped_.load(std::memory_order_relaxed);
    if (dropped != 0) dropped_.store(0, std::memory_order_relaxed);
    return dropped;
  }

 private:
  static constexpr std::uint64_t sleeping = 1, one_part = 2;
  [[nodiscard]] std::uint32_t count(std::uint64_t ended) const noexcept {
    return static_cast<std::uint32_t>((ended - base_) / one_part);
  }

  // What a helper needs to begin comes with one line: the claim takes it, for writing.
  alignas(tuning::line_bytes) typename Env::template atomic<std::int64_t> left_{0};
  Job job_;
  // What the owner waits for; helpers alone write here, but for rare cases.
  alignas(tuning::line_bytes) typename Env::template atomic<std::uint64_t> ended_{0};
  typename Env::template atomic<std::uint32_t> dropped_{0};
  // The owners'.
  alignas(tuning::line_bytes) typename Env::template atomic<bool> busy_{false};
  std::uint64_t base_ = 0;  // ended_ when the job was published; the owner's
};

}  // namespace heddle::sched
