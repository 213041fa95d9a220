// Timeline: how far a device (or a foreign signaller) has come, how tickets ended, and who waits
// for them. Shared by its events, so it outlives its device. Any thread, unless said otherwise.
//
// Wake protocol (Dekker): the completer stores `completed`, then reads `waiters` (advance(), then
// call_back()); a waiter adds
// itself to `waiters`, then reads `completed` again. Both are seq_cst, so at least one of them sees
// the other.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "heddle/scheduler.hpp"
#include "scheduler/parker.hpp"
#include "scheduler/tuning.hpp"

namespace heddle::sched {

/// How a run of tickets ended, when not well.
enum class End : std::uint8_t { failed, skipped, cancelled };

class Timeline : public std::enable_shared_from_this<Timeline> {
 public:
  using Clock = Event::Clock;
  using Callback = std::function<void()>;

  explicit Timeline(std::string name);

  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  [[nodiscard]] std::uint64_t id() const noexcept { return id_; }
  [[nodiscard]] Event event(std::uint64_t ticket) noexcept {
    return Event(shared_from_this(), ticket);
  }
  [[nodiscard]] static const std::shared_ptr<Timeline>& of(const Event& event) noexcept {
    return event.timeline_;
  }
  [[nodiscard]] static Event refused(Status why) noexcept { return Event(std::move(why)); }

  /// This process is a forked child of the one that made the timeline: nobody here will complete
  /// it.
  [[nodiscard]] bool in_forked_child() const noexcept;
  [[nodiscard]] Status fork_refusal() const noexcept;

  [[nodiscard]] std::uint64_t completed() const noexcept {
    // acquire: pairs with the store in advance(): what the task did is visible to who sees it
    // done.
    return completed_.load(std::memory_order_acquire);
  }
  [[nodiscard]] bool reached(std::uint64_t ticket) const noexcept { return completed() >= ticket; }

  /// How `ticket` ended, when badly; ok while pending. A contained failure says so.
  struct Outcome {
    Status status;
    bool contained = false;
  };
  [[nodiscard]] Outcome outcome(std::uint64_t ticket) const noexcept;

  /// Whether anybody asked for a bad end.
  [[nodiscard]] bool observed() const noexcept {
    // relaxed: pairs with the store in outcome(); orders nothing.
    return observed_.load(std::memory_order_relaxed);
  }

  void forget_observed() noexcept {
    // relaxed: as above.
    observed_.store(false, std::memory_order_relaxed);
  }

  /// Notes that the tickets `from` to `to` end badly; before advance(). The completer alone. Runs
  /// of equal ends are one entry.
  void note(std::uint64_t from, std::uint64_t to, End end, const Status& status,
            bool contained) noexcept;
  /// All tickets up to this one have ended. The completer alone; call_back() must follow.
  void advance(std::uint64_t ticket) noexcept;
  /// Wakes and calls back who waits for tickets up to this one. Holds no lock while it does.
  void call_back(std::uint64_t ticket) noexcept;
  void complete(std::uint64_t ticket) noexcept {
    advance(ticket);
    call_back(ticket);
  }

  /// Waits until `ticket` ended: spins for `spin`, then sleeps. false: the deadline passed first.
  bool wait(std::uint64_t ticket, std::optional<Clock::time_point> deadline,
            std::chrono::nanoseconds spin) noexcept;
  /// Calls back once `ticket` ended: from complete(), or at once. The id takes it back; 0 when
  /// called at once.
  std::uint64_t call(std::uint64_t ticket, Callback callback);
  /// Runs a callback; what it throws goes to the log.
  static void run_callback(const Callback& callback) noexcept;
  /// Takes a pending callback back. After this it will not begin (it may have run).
  void uncall(std::uint64_t id) noexcept;

 private:
  struct Run {
    std::uint64_t from, to;
    End end;
    bool contained;
    Status status;
  };

  /// Locks the mutex; in a forked child only if nobody held it when the process forked.
  [[nodiscard]] std::unique_lock<std::mutex> lock_or_fork() const noexcept;
  bool run_next_callback(std::uint64_t ticket) noexcept;
  [[nodiscard]] bool reached_seq_cst(std::uint64_t ticket) const noexcept;

  const std::uint64_t id_;
  const std::string name_;
  const std::uint32_t fork_generation_;
  alignas(tuning::line_bytes) std::atomic<std::uint64_t> completed_{0};  // written by the completer
  alignas(tuning::line_bytes) std::atomic<std::uint32_t> waiters_{0};    // entries in calls_
  std::atomic<bool> has_bad_ends_{false};
  mutable std::atomic<bool> observed_{false};
  mutable std::mutex mutex_;
  std::multimap<std::uint64_t, std::pair<std::uint64_t, Callback>>
      calls_;                    // by ticket; guarded by mutex_
  std::uint64_t last_call_ = 0;  // guarded by mutex_
  std::vector<Run> bad_ends_;    // by ticket; guarded by mutex_
};

/// A timeline that a foreign signaller completes.
struct ExternalState : Timeline {
  using Timeline::Timeline;
  Status signal(std::uint64_t ticket, const Status& status) noexcept;
  /// The last handle went: what was handed out and not signalled ends as failed.
  void abandon() noexcept;

  std::atomic<std::uint64_t> tickets{0};
  std::mutex signalling;  // signallers complete one at a time
};

/// Now plus `timeout`, at most some centuries away, and not before now.
[[nodiscard]] inline Timeline::Clock::time_point deadline_after(
    std::chrono::nanoseconds timeout) noexcept {
  constexpr std::chrono::nanoseconds longest = std::chrono::hours(24 * 365 * 100);
  return Timeline::Clock::now() + std::clamp(timeout, std::chrono::nanoseconds(0), longest);
}

/// Spins until `done()` or `spin` has passed; whether it was done.
template <class Done>
[[nodiscard]] bool spin_until(const Done& done, std::chrono::nanoseconds spin) noexcept {
  if (done()) return true;
  if (spin.count() <= 0) return false;
  const auto end = Timeline::Clock::now() + spin;
  while (true) {
    for (int k = 0; k < tuning::spins_per_clock_read; ++k) {
      if (done()) return true;
      cpu_relax();
    }
    if (Timeline::Clock::now() >= end) return done();
  }
}

}  // namespace heddle::sched
