// Timeline: how far a device (or a foreign signaller) has come, how tickets ended, and what waits
// for them. Any thread, unless said otherwise.
//
// Timelines live in a pool that is never given back, so that events are plain values: a place in
// the pool, the number of the timeline that was there, and a ticket. When the place has another
// number, the timeline was closed, and all its tickets had ended. How those of closed timelines
// ended badly is kept apart (device/bad_ends.hpp).
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
  /// All tickets have ended (not in a forked child, which keeps the place). The owner, once.
  void close() noexcept;

  // For the owner, while the timeline is open.

  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  [[nodiscard]] std::uint64_t id() const noexcept {
    // relaxed: the owner opened it.
    return id_.load(std::memory_order_relaxed);
  }
  /// Its number among the places of the pool, from 1.
  [[nodiscard]] std::uint64_t place() const noexcept { return place_; }
  /// The identity of the process that opened what is or was at this place. Any thread.
  [[nodiscard]] std::uint64_t process() const noexcept {
    // relaxed: written before anybody knew the timeline, and never by another process.
    return process_.load(std::memory_order_relaxed);
  }
  [[nodiscard]] Event event(std::uint64_t ticket) noexcept { return Event({this, id()}, ticket); }
  /// What runs the device whose timeline this is; before anybody else knows it.
  void set_runner(const std::shared_ptr<Runner>& runner) noexcept {
    runner_ = runner;
    // relaxed: a thread that has an event of this timeline comes after.
    has_runner_.store(runner != nullptr, std::memory_order_relaxed);
  }
  /// Likewise what its device issues to; null: nothing that waits.
  void set_hand_over(const std::shared_ptr<HandOver>& hand_over) noexcept;
  /// A submission to this device that was refused, or one to nothing.
  [[nodiscard]] Event refuse(Status why) noexcept {
    return Event(Event::Place{this, id()}, std::move(why));
  }
  [[nodiscard]] static Event refused(Status why) noexcept { return Event(std::move(why)); }

  /// This process is a forked child of the one that made the timeline: nobody here will complete
  /// it.
  [[nodiscard]] bool in_forked_child() const noexcept;
  [[nodiscard]] Status fork_refusal() const noexcept;

  [[nodiscard]] std::uint64_t completed() const noexcept { return progress_.completed(); }

  /// Callbacks that have not been called.
  [[nodiscard]] std::size_t waiters() const noexcept {
    const std::lock_guard lock(mutex_);
    return calls_[0].size() + calls_[1].size();
  }

  /// Logs the failure of `ticket`, unless somebody has seen it or it was told already.
  void tell_unseen(std::uint64_t ticket) noexcept;
  /// The same for all tickets: one line.
  void tell_unseen() noexcept;

  /// Notes that the tickets `from` to `to` end badly (see BadEnds::add()); before advance(). The
  /// completer alone.
  void note(std::uint64_t from, std::uint64_t to, End end, const Status& status,
            bool alone) noexcept;
  /// All tickets up to this one have ended. The completer alone. true: call_back() must follow.
  [[nodiscard]] bool advance(std::uint64_t ticket) noexcept { return progress_.advance(ticket); }
  /// advance() in two parts: true: look() must follow, and its result is that of advance().
  [[nodiscard]] bool pass(std::uint64_t ticket) noexcept { return progress_.pass(ticket); }
  [[nodiscard]] bool look(std::uint64_t ticket) noexcept { return progress_.look(ticket); }
  /// The completer will look, and see what the caller wrote before. Any thread.
  void attract() noexcept { progress_.attract(); }
  /// Wakes and calls back all that wait for tickets up to this one; whether there was anybody.
  /// Holds no lock while it does.
  bool call_back(std::uint64_t ticket) noexcept;
  /// Tickets up to this one were issued, and will end whatever their device does next. The consumer
  /// of a device that has tasks in flight.
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
    // or number sees that this one was closed.
    return id_.load(std::memory_order_acquire) != id;
  }
  /// See note_issued().
  [[nodiscard]] bool ends_by_itself(std::uint64_t ticket) const noexcept {
    // acquire: pairs with the release in note_issued(): for the graph of waits, whose lock orders
    // it besides.
    return issued_.load(std::memory_order_acquire) >= ticket;
  }
  /// How `ticket` ended; ok while pending.
  [[nodiscard]] Status outcome(std::uint64_t id, std::uint64_t ticket) const noexcept;
  /// The same for a user who asks: the failure counts as seen from then on.
  [[nodiscard]] Status show(std::uint64_t id, std::uint64_t ticket) noexcept;
  /// Somebody was given this failure of the whole timeline.
  void see(std::uint64_t id, const Status& failure) noexcept;
  [[nodiscard]] std::string name_of(std::uint64_t id) const;
  /// Tells the trace that is recorded the names of all that are open.
  static void name_all_in_trace() noexcept;
  /// What has to end its tickets, in words.
  [[nodiscard]] std::string signaller_of(std::uint64_t id) const;
  /// Waits until `ticket` ended: spins for `spin`, then sleeps. false: the deadline passed first.
  bool wait(std::uint64_t id, std::uint64_t ticket, std::optional<Clock::time_point> deadline,
            std::chrono::nanoseconds spin) noexcept;
  /// What is called back. Waiters come first: a user's callback may wait for what they do then.
  enum class Caller : std::uint8_t { waiter, user };
  /// Calls back once `ticket` ended: from complete(), or at once. The number takes a waiter's back;
  /// 0 when called at once.
  std::uint64_t call(std::uint64_t id, std::uint64_t ticket, Callback callback,
                     Caller caller = Caller::waiter);
  /// Takes a pending waiter's callback back. After this it will not begin (it may have run).
  void uncall(std::uint64_t call) noexcept;
  /// Runs a callback; what it throws goes to the log.
  static void run_callback(const Callback& callback) noexcept;

  // The parts of an event.

  [[nodiscard]] static Timeline* of(const Event& event) noexcept { return event.place_.timeline; }
  /// As Event::done(), asked by heddle itself: nobody has seen it by that.
  [[nodiscard]] static bool has_ended(const Event& event) noexcept {
    return of(event) == nullptr || of(event)->reached(event.place_.id, event.ticket_);
  }
  /// An accepted event becomes a later one of its own timeline.
  static void advance(Event& event, const Event& later) noexcept { event.ticket_ = later.ticket_; }
  /// How it ended, without seeing it.
  [[nodiscard]] static Status outcome_of(const Event& event) noexcept {
    if (of(event) == nullptr || !event.refusal_.ok()) return event.refusal_;
    return of(event)->outcome(event.device_id(), event.ticket_);
  }
  /// What runs the event's device; null when that has a thread, or is closed.
  [[nodiscard]] std::shared_ptr<Runner> runner(const Event& event) const noexcept;
  /// What the event's device issues to; null: nothing that waits, or it is closed.
  [[nodiscard]] std::shared_ptr<HandOver> hand_over(const Event& event) const noexcept;
  static std::uint64_t call(const Event& event, Callback callback) {
    return of(event)->call(event.device_id(), event.ticket_, std::move(callback));
  }

 private:
  Timeline() = default;

  /// Tells what nobody has seen when the process exits.
  static void at_exit() noexcept;
  void name_in_trace() const noexcept;
  [[nodiscard]] bool told_here() const noexcept;
  bool run_next_callback(std::uint64_t ticket) noexcept;
  [[nodiscard]] std::uint64_t first_awaited() const noexcept;
  /// Locks the mutex; in a forked child only if nobody held it when the process forked.
  [[nodiscard]] std::unique_lock<std::mutex> lock_or_fork() const noexcept;

  Progress<> progress_;  // waited for by the entries of calls_

  // Written by the thread that opens it, and by those that note failures.
  alignas(tuning::line_bytes) std::atomic<bool> has_bad_ends_{false};
  std::atomic<std::uint64_t> id_{0};  // the number of the timeline that is here now
  std::atomic<std::uint64_t> process_{0};
  std::atomic<std::uint32_t> fork_generation_{0};
  std::atomic<bool> has_runner_{false};
  std::atomic<std::uint64_t> issued_{0};  // see note_issued(); 0 for other devices

  mutable std::mutex mutex_;  // guards what follows
  std::string name_;          // also read by the owner, without
  std::uint64_t named_ = 0;   // whose name it is
  bool foreign_ = false;      // no device's
  std::weak_ptr<Runner> runner_;
  std::weak_ptr<HandOver> hand_over_;
  std::multimap<std::uint64_t, std::pair<std::uint64_t, Callback>> calls_[2];  // by ticket; Caller
  std::uint64_t last_call_ = 0;
  BadEnds bad_ends_;
  mutable GraphWait graph_wait_;
  friend class WaitGraph;
  Timeline* next_free_ = nullptr;    // guarded by the pool's mutex
  Timeline* made_before_ = nullptr;  // constant: all that were ever made
  std::uint64_t place_ = 0;          // constant: which of them this is, from 1
  friend class TimelinePool;
};

/// Closes its timeline when it goes.
struct TimelineCloser {
  void operator()(Timeline* timeline) const noexcept { timeline->close(); }
};
using OwnedTimeline = std::unique_ptr<Timeline, TimelineCloser>;

/// A timeline that a foreign signaller completes.
class ExternalState {
 public:
  explicit ExternalState(std::string name) : timeline_(Timeline::open(std::move(name), true)) {}
  /// The last handle went: what was handed out and not signalled ends as failed.
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
