// Timeline: how far a device (or a foreign signaller) has come, how tickets ended, and who waits
// for tickets. Any thread, unless said otherwise.
//
// Timelines live in a pool that is never given back, which makes events plain values: a place in
// the pool, the number of the timeline that was there, and a ticket. A different number at the
// place means: the timeline was closed, and every ticket had ended. Bad ends of closed timelines
// are kept apart (device/bad_ends.hpp).
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "heddle/scheduler.hpp"
#include "scheduler/atomic.hpp"
#include "scheduler/device/bad_ends.hpp"
#include "scheduler/device/hooks.hpp"
#include "scheduler/device/runner.hpp"
#include "scheduler/device/wait_graph.hpp"
#include "scheduler/protocol/progress.hpp"
#include "scheduler/threads/parker.hpp"
#include "scheduler/tuning.hpp"

namespace heddle::sched {

class HandOver;

class Timeline {
 public:
  using Clock = Event::Clock;
  using Callback = std::function<void()>;

  /// Takes a place in the pool. Throws std::bad_alloc.
  [[nodiscard]] static Timeline* open(std::string name, bool foreign = false);
  /// Every ticket has ended (not in a forked child, which keeps the place). Called by the owner,
  /// once.
  void close() noexcept;

  // For the owner, while the timeline is open.

  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  [[nodiscard]] std::uint64_t id() const noexcept {
    // relaxed: pairs with the store in open(): the owner opened the timeline.
    return id_.load(std::memory_order_relaxed);
  }
  /// The number of this place in the pool, from 1.
  [[nodiscard]] std::uint64_t place() const noexcept { return place_; }
  /// The identity of the process that opened the current or latest timeline of this place. Any
  /// thread.
  [[nodiscard]] std::uint64_t process() const noexcept {
    // relaxed: pairs with the store in open(): written before any other thread knew the timeline,
    // and never by another process.
    return process_.load(std::memory_order_relaxed);
  }
  [[nodiscard]] Event event(std::uint64_t ticket) noexcept { return Event({this, id()}, ticket); }
  /// Sets the runner of the timeline's device; called before any other thread knows the timeline.
  void set_runner(const std::shared_ptr<Runner>& runner) noexcept {
    runner_ = runner;
    // relaxed: pairs with the load in runner(): a thread that has an event comes after.
    has_runner_.store(runner != nullptr, std::memory_order_relaxed);
  }
  /// Likewise sets the queue to which the device issues; null: no queue that waits.
  void set_hand_over(const std::shared_ptr<HandOver>& hand_over) noexcept;
  /// The event of a refused submission to this device; refused(): of a refused submission to no
  /// device.
  [[nodiscard]] Event refuse(Status why) noexcept {
    return Event(Event::Place{this, id()}, std::move(why));
  }
  [[nodiscard]] static Event refused(Status why) noexcept { return Event(std::move(why)); }

  /// True in a forked child of the process that made the timeline: no thread here will complete it.
  [[nodiscard]] bool in_forked_child() const noexcept;
  [[nodiscard]] Status fork_refusal() const noexcept;

  [[nodiscard]] std::uint64_t completed() const noexcept { return progress_.completed(); }

  /// The number of callbacks not yet called.
  [[nodiscard]] std::size_t waiters() const noexcept {
    const std::lock_guard lock(mutex_);
    return calls_[0].size() + calls_[1].size();
  }

  /// Logs the failure of `ticket`, unless a caller has seen it or the log already has it.
  void tell_unseen(std::uint64_t ticket) noexcept;
  /// tell_unseen() for all tickets: one line in the log.
  void tell_unseen() noexcept;

  /// Notes that the tickets `from` to `to` end badly (see BadEnds::add()); called before advance(),
  /// by the completer alone.
  void note(std::uint64_t from, std::uint64_t to, End end, const Status& status,
            bool alone) noexcept;
  /// Every ticket up to `ticket` has ended. Called by the completer alone. true: call_back() must
  /// follow.
  [[nodiscard]] bool advance(std::uint64_t ticket) noexcept { return progress_.advance(ticket); }
  /// advance() in two parts: when pass() returns true, look() must follow, and its result is that
  /// of advance().
  [[nodiscard]] bool pass(std::uint64_t ticket) noexcept { return progress_.pass(ticket); }
  [[nodiscard]] bool look(std::uint64_t ticket) noexcept { return progress_.look(ticket); }
  /// The completer will look, and see earlier writes of the caller. Any thread.
  void attract() noexcept { progress_.attract(); }
  /// Wakes and calls back every waiter for tickets up to `ticket`; returns whether there was one.
  /// Holds no lock during the calls.
  bool call_back(std::uint64_t ticket) noexcept;
  /// Tickets up to `ticket` were issued, and will end whatever their device does next. Called by
  /// the consumer of a device that has tasks in flight.
  void note_issued(std::uint64_t ticket) noexcept {
    // release: pairs with the acquire in ends_by_itself().
    issued_.store(ticket, std::memory_order_release);
  }
  void complete(std::uint64_t ticket) noexcept {
    if (advance(ticket)) call_back(ticket);
  }

  // For events, also after the timeline was closed. `id` is the event's.

  [[nodiscard]] bool reached(std::uint64_t id, std::uint64_t ticket) const noexcept {
    if (completed() >= ticket) return true;
    // acquire: pairs with the release in open(): a thread that sees the next timeline's `completed`
    // or number sees the close of this timeline.
    return id_.load(std::memory_order_acquire) != id;
  }
  /// See note_issued().
  [[nodiscard]] bool ends_by_itself(std::uint64_t ticket) const noexcept {
    // acquire: pairs with the release in note_issued(): for the graph of waits, whose lock orders
    // the access besides.
    return issued_.load(std::memory_order_acquire) >= ticket;
  }
  /// How `ticket` ended; ok while pending.
  [[nodiscard]] Status outcome(std::uint64_t id, std::uint64_t ticket) const noexcept;
  /// outcome() for a user who asks: the failure counts as seen afterwards.
  [[nodiscard]] Status show(std::uint64_t id, std::uint64_t ticket) noexcept;
  /// A caller received `failure` as the failure of the whole timeline.
  void see(std::uint64_t id, const Status& failure) noexcept;
  [[nodiscard]] std::string name_of(std::uint64_t id) const;
  /// Writes the names of all open timelines into the trace that is being recorded.
  static void name_all_in_trace() noexcept;
  /// The signaller of this timeline's tickets, in words.
  [[nodiscard]] std::string signaller_of(std::uint64_t id) const;
  /// Waits until `ticket` has ended: spins for `spin`, then sleeps. false: the deadline passed
  /// first.
  bool wait(std::uint64_t id, std::uint64_t ticket, std::optional<Clock::time_point> deadline,
            std::chrono::nanoseconds spin) noexcept;
  /// The kinds of callbacks. Waiters are called first: a user's callback may wait for the effects
  /// of a waiter's.
  enum class Caller : std::uint8_t { waiter, user };
  /// Calls `callback` once `ticket` has ended: from complete(), or at once. The returned number
  /// cancels a waiter's callback; 0 when called at once.
  std::uint64_t call(std::uint64_t id, std::uint64_t ticket, Callback callback,
                     Caller caller = Caller::waiter);
  /// Cancels a pending waiter's callback. The callback does not begin after this call (it may have
  /// run).
  void uncall(std::uint64_t call) noexcept;
  /// Runs a callback; an exception of the callback goes to the log.
  static void run_callback(const Callback& callback) noexcept;

  // The parts of an event.

  [[nodiscard]] static Timeline* of(const Event& event) noexcept { return event.place_.timeline; }
  /// Event::done() for heddle's own use: no caller counts as having seen the end.
  [[nodiscard]] static bool has_ended(const Event& event) noexcept {
    return of(event) == nullptr || of(event)->reached(event.place_.id, event.ticket_);
  }
  /// Moves an accepted event to a later ticket of its own timeline.
  static void advance(Event& event, const Event& later) noexcept { event.ticket_ = later.ticket_; }
  /// How the event ended, without marking a failure as seen.
  [[nodiscard]] static Status outcome_of(const Event& event) noexcept {
    if (of(event) == nullptr || !event.refusal_.ok()) return event.refusal_;
    return of(event)->outcome(event.device_id(), event.ticket_);
  }
  /// The runner of the event's device; null when the device has its own thread or is closed.
  [[nodiscard]] std::shared_ptr<Runner> runner(const Event& event) const noexcept;
  /// The queue to which the event's device issues; null: no queue that waits, or a closed device.
  [[nodiscard]] std::shared_ptr<HandOver> hand_over(const Event& event) const noexcept;
  static std::uint64_t call(const Event& event, Callback callback) {
    return of(event)->call(event.device_id(), event.ticket_, std::move(callback));
  }

 private:
  Timeline() = default;

  /// Logs the unseen failures when the process exits.
  static void at_exit() noexcept;
  void name_in_trace() const noexcept;
  [[nodiscard]] bool told_here() const noexcept;
  bool run_next_callback(std::uint64_t ticket) noexcept;
  [[nodiscard]] std::uint64_t first_awaited() const noexcept;
  /// Locks the mutex; in a forked child only if no thread held the mutex at the fork.
  [[nodiscard]] std::unique_lock<std::mutex> lock_or_fork() const noexcept;

  Progress<> progress_;  // the entries of calls_ wait for it

  // Written by the thread that opens the timeline, and by threads that note failures.
  alignas(tuning::line_bytes) std::atomic<bool> has_bad_ends_{false};
  std::atomic<std::uint64_t> id_{0};  // the number of the timeline that is here now
  std::atomic<std::uint64_t> process_{0};
  std::atomic<std::uint32_t> fork_generation_{0};
  std::atomic<bool> has_runner_{false};
  std::atomic<std::uint64_t> issued_{0};  // see note_issued(); 0 for other devices

  mutable std::mutex mutex_;  // guards the members below
  std::string name_;          // the owner also reads it without the lock
  std::uint64_t named_ = 0;   // the timeline that name_ belongs to
  bool foreign_ = false;      // belongs to no device
  std::weak_ptr<Runner> runner_;
  std::weak_ptr<HandOver> hand_over_;
  // by ticket; indexed by Caller
  std::multimap<std::uint64_t, std::pair<std::uint64_t, Callback>> calls_[2];
  std::uint64_t last_call_ = 0;
  BadEnds bad_ends_;
  mutable GraphWait graph_wait_;
  friend class WaitGraph;
  Timeline* next_free_ = nullptr;    // guarded by the pool's mutex
  Timeline* made_before_ = nullptr;  // constant: links every place ever made
  std::uint64_t place_ = 0;          // constant: the number of this place, from 1
  friend class TimelinePool;
};

/// Closes its timeline when destroyed.
struct TimelineCloser {
  void operator()(Timeline* timeline) const noexcept { timeline->close(); }
};
using OwnedTimeline = std::unique_ptr<Timeline, TimelineCloser>;

/// A timeline that a foreign signaller completes.
class ExternalState {
 public:
  explicit ExternalState(std::string name) : timeline_(Timeline::open(std::move(name), true)) {}
  /// The last handle was released: events given out and not signalled end as failed.
  ~ExternalState();
  ExternalState(const ExternalState&) = delete;
  ExternalState& operator=(const ExternalState&) = delete;

  [[nodiscard]] Event next() noexcept;
  Status signal(std::uint64_t ticket, const Status& status) noexcept;
  [[nodiscard]] const std::string& name() const noexcept { return timeline_->name(); }

 private:
  const OwnedTimeline timeline_;
  std::atomic<std::uint64_t> tickets_{0};
  std::mutex signalling_;  // signallers complete one at a time
};

/// Now plus `timeout`, at most some centuries away, and not before now.
[[nodiscard]] inline Timeline::Clock::time_point deadline_after(
    std::chrono::nanoseconds timeout) noexcept {
  constexpr std::chrono::nanoseconds longest = std::chrono::hours(24 * 365 * 100);
  return now() + std::clamp(timeout, std::chrono::nanoseconds(0), longest);
}

}  // namespace heddle::sched
