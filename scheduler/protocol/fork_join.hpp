// ForkJoin: one thread, the owner, publishes a job of numbered parts. The owner and any helpers
// claim the parts one by one, and the owner continues once every part has ended. A slow thread
// delays only the part that it holds.
//
//   owner: try_begin()                     helper: left > 0? claim(): left -= 1, and left was > 0
//          job, then left = parts                  reads the job; runs the part
//          claims parts, too                       claims the next part, or
//          waits until ended counts every part     ended += parts that it ran
//
// `left` counts down and needs no job number beside it: the value that a helper read before its
// claim decides only whether the helper tries. A successful claim belongs to the job that is
// published at that time, however long the helper was away, and the fields of that job stay until
// the part has ended. A failed claim leaves `left` below 0, by at most one per thread, until the
// store of the next job.
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
    // relaxed: a first look, because the exchange would take the line away from the owner.
    if (busy_.load(std::memory_order_relaxed)) return false;
    // acquire: pairs with the release in finish(): the previous owner no longer uses the members
    // below.
    return !busy_.exchange(true, std::memory_order_acquire);
  }
  /// Called by the owner, once. `parts` parts can be claimed from here on.
  void publish(const Job& job, std::uint32_t parts) noexcept {
    // relaxed: no thread has changed ended_ since the previous owner saw the last part end.
    base_ = ended_.load(std::memory_order_relaxed);
    job_ = job;
    // release: pairs with the acquire in claim(), directly or through the claims between.
    left_.store(parts, std::memory_order_release);
  }
  /// Called by the owner: every part has ended.
  void finish() noexcept {
    // release: pairs with the acquire in try_begin().
    busy_.store(false, std::memory_order_release);
  }

  /// Whether claim() may find a part. Any thread.
  [[nodiscard]] bool is_open() const noexcept {
    // relaxed: claim() decides.
    return left_.load(std::memory_order_relaxed) > 0;
  }
  /// Claims a part: the n-th from the last. 0: no part is left; the caller may try again only once
  /// is_open(). Any thread.
  [[nodiscard]] std::uint32_t claim() noexcept {
    // acquire: pairs with the release in publish().
    const std::int64_t left = left_.fetch_sub(1, std::memory_order_acquire);
    return left > 0 ? static_cast<std::uint32_t>(left) : 0;
  }
  /// Claims every remaining part, to drop the parts. Called by a thread that holds a part, or by
  /// the owner.
  [[nodiscard]] std::uint32_t claim_rest() noexcept {
    // relaxed: the caller knows the job, and reads no data for the dropped parts.
    const std::int64_t left = left_.exchange(0, std::memory_order_relaxed);
    return left > 0 ? static_cast<std::uint32_t>(left) : 0;
  }
  /// Valid between a successful claim and its end().
  [[nodiscard]] const Job& job() const noexcept { return job_; }

  /// `parts` parts that the calling helper claimed have ended, `dropped` of them without having
  /// run; the helper's last access for these parts. true: the owner sleeps, or is about to: the
  /// caller must wake the owner.
  [[nodiscard]] bool end(std::uint32_t parts, std::uint32_t dropped) noexcept {
    // relaxed: the next line publishes the count.
    if (dropped != 0) dropped_.fetch_add(dropped, std::memory_order_relaxed);
    // release: pairs with the acquires in ended() and sleep().
    return (ended_.fetch_add(parts * one_part, std::memory_order_release) & sleeping) != 0;
  }

  /// The number of published parts that helpers have ended. Called by the owner.
  [[nodiscard]] std::uint32_t ended() const noexcept {
    // acquire: pairs with the release in end().
    return count(ended_.load(std::memory_order_acquire));
  }
  /// The owner is about to sleep until a helper ends a part, and must check the result, the value
  /// of ended(), once more. Both sides exchange the same word: the later exchange sees the earlier.
  [[nodiscard]] std::uint32_t sleep() noexcept {
    // acquire: as in ended().
    return count(ended_.fetch_or(sleeping, std::memory_order_acquire));
  }
  /// The owner is awake.
  void wake() noexcept {
    // relaxed: carries no data.
    ended_.fetch_and(~sleeping, std::memory_order_relaxed);
  }
  /// The number of parts that helpers have dropped. Called by the owner, once every part has ended.
  [[nodiscard]] std::uint32_t take_dropped() noexcept {
    // relaxed, twice: helpers have ended the parts that they counted here, and the next helpers
    // that count have claimed a part of the next job.
    const std::uint32_t dropped = dropped_.load(std::memory_order_relaxed);
    if (dropped != 0) dropped_.store(0, std::memory_order_relaxed);
    return dropped;
  }

 private:
  static constexpr std::uint64_t sleeping = 1, one_part = 2;
  [[nodiscard]] std::uint32_t count(std::uint64_t ended) const noexcept {
    return static_cast<std::uint32_t>((ended - base_) / one_part);
  }

  // A helper needs this one line to begin; its claim fetches the line for writing.
  alignas(tuning::line_bytes) typename Env::template atomic<std::int64_t> left_{0};
  Job job_;
  // The owner waits for this line; only helpers write here, except in rare cases.
  alignas(tuning::line_bytes) typename Env::template atomic<std::uint64_t> ended_{0};
  typename Env::template atomic<std::uint32_t> dropped_{0};
  // The owners' line.
  alignas(tuning::line_bytes) typename Env::template atomic<bool> busy_{false};
  std::uint64_t base_ = 0;  // ended_ when the job was published; used by the owner
};

}  // namespace heddle::sched
