// Timeline: the pool, ends of tickets, waits and callbacks.
#include "scheduler/device/timeline.hpp"

#include <fmt/format.h>

#include <cstdlib>
#include <memory>
#include <thread>

#include "heddle/observe.hpp"
#include "scheduler/device/clocks.hpp"
#include "scheduler/observe/log.hpp"
#include "scheduler/observe/trace.hpp"
#include "scheduler/threads/fork.hpp"
#include "scheduler/threads/process_mutex.hpp"
#include "scheduler/threads/spin.hpp"
#include "scheduler/threads/task_context.hpp"
#include "scheduler/threads/what.hpp"

namespace heddle::sched {

/// Places for timelines: Timeline objects, never freed. The places of closed timelines wait in a
/// queue for the next open().
class TimelinePool {
 public:
  static TimelinePool& get() noexcept;

  [[nodiscard]] Timeline* take() {
    {
      const std::lock_guard lock(mutex_);
      // A forked child skips the places that it inherits: the parent's events refer to these
      // places.
      while (Timeline* const first = first_) {
        first_ = first->next_free_;
        if (!first->in_forked_child()) return first;
      }
    }
    auto* const made = new Timeline;
    {
      const std::lock_guard lock(mutex_);
      made->place_ = ++places_;
      made->made_before_ = std::exchange(last_made_, made);
    }
    if (made->made_before_ == nullptr) std::atexit(&Timeline::at_exit);
    return made;
  }
  /// The place made last; null before the first.
  [[nodiscard]] Timeline* last_made() noexcept {
    const std::lock_guard lock(mutex_);
    return last_made_;
  }
  void give_back(Timeline* timeline) noexcept {
    const std::lock_guard lock(mutex_);
    timeline->next_free_ = nullptr;
    (first_ == nullptr ? first_ : last_->next_free_) = timeline;
    last_ = timeline;
  }
  [[nodiscard]] std::uint64_t next_id() noexcept {
    const std::lock_guard lock(mutex_);
    return ++last_id_;
  }

 private:
  ProcessMutex mutex_;
  Timeline* first_ = nullptr;
  Timeline* last_ = nullptr;
  Timeline* last_made_ = nullptr;
  std::uint64_t places_ = 0;
  std::uint64_t last_id_ = 0;
};

TimelinePool& TimelinePool::get() noexcept {
  static constinit TimelinePool pool;  // never destroyed: users query events during exit
  return pool;
}

Timeline* Timeline::open(std::string name, bool foreign) {
  TimelinePool& pool = TimelinePool::get();
  Timeline* const timeline = pool.take();
  const std::lock_guard lock(timeline->mutex_);
  timeline->name_ = std::move(name);
  timeline->named_ = pool.next_id();
  timeline->foreign_ = foreign;
  timeline->set_runner(nullptr);
  timeline->hand_over_.reset();
  // relaxed, also below: pairs with the loads of threads that get the timeline from the caller;
  // other threads do not know the timeline yet.
  timeline->fork_generation_.store(fork_generation(), std::memory_order_relaxed);
  timeline->process_.store(process_identity(), std::memory_order_relaxed);
  timeline->issued_.store(0, std::memory_order_relaxed);
  // release: pairs with the acquire in outcome().
  timeline->has_bad_ends_.store(false, std::memory_order_release);
  // relaxed: published by the next store; pairs with the load in reached().
  timeline->id_.store(timeline->named_, std::memory_order_relaxed);
  timeline->progress_.restart();
  // Under the lock, which name_all_in_trace() takes after the trace has begun: one of the two calls
  // sees the other's effect.
  if (trace::on()) trace::name(timeline->named_, timeline->name_);
  return timeline;
}

void Timeline::name_in_trace() const noexcept {
  const auto lock = lock_or_fork();
  // relaxed: pairs with the stores in open() and close(), under the same lock.
  const std::uint64_t open = id_.load(std::memory_order_relaxed);
  if (lock && open != 0 && !in_forked_child()) trace::name(open, name_);
}

void Timeline::close() noexcept {
  if (in_forked_child()) return;
  tell_unseen();
  const std::uint64_t closed = id();
  {
    const std::lock_guard lock(mutex_);
    bury(id(), std::move(bad_ends_));
    // Constructed anew: a moved-from vector needs memory for its first entry.
    std::destroy_at(&bad_ends_);
    std::construct_at(&bad_ends_);
    // release: pairs with the acquire in reached() and outcome(): outcome_of_closed() finds the
    // timeline's bad ends by now.
    id_.store(0, std::memory_order_release);
  }
  if (Clocks::on()) Clocks::closed(closed);
  TimelinePool::get().give_back(this);
}

void Timeline::run_callback(const Callback& callback) noexcept {
  try {
    callback();
  } catch (const std::exception& e) {
    log_made(LogLevel::error,
             [&] { return fmt::format("an event callback threw: {}", what_of(e)); });
  } catch (...) {
    log(LogLevel::error, "an event callback threw something that is no std::exception");
  }
}

std::unique_lock<std::mutex> Timeline::lock_or_fork() const noexcept {
  if (in_forked_child()) return {mutex_, std::try_to_lock};
  return std::unique_lock(mutex_);
}

bool Timeline::in_forked_child() const noexcept {
  // relaxed: pairs with the store in open(), before any other thread knew this timeline; orders no
  // memory.
  return fork_generation() != fork_generation_.load(std::memory_order_relaxed);
}

Status Timeline::fork_refusal() const noexcept {
  return Status(ErrorCode::unavailable, [&] {
    return fmt::format(
        "timeline '{}': forked: this process is a child of the one that made it, whose threads "
        "alone end its tickets; open a new one in the child",
        name_);
  });
}

Status Timeline::outcome(std::uint64_t id, std::uint64_t ticket) const noexcept {
  if (!reached(id, ticket)) return {};
  // acquire: pairs with the releases in note() and open(). A bad end is noted before its ticket
  // ends. If the flag belongs to the next timeline of this place, this thread also sees that this
  // timeline was closed.
  const bool bad = has_bad_ends_.load(std::memory_order_acquire);
  // acquire: pairs with the release in close().
  if (id_.load(std::memory_order_acquire) == id) {
    if (!bad) return {};
    const auto lock = lock_or_fork();
    if (!lock) return fork_refusal();
    // relaxed: pairs with the stores in open() and close(), under the same lock.
    if (id_.load(std::memory_order_relaxed) == id) {
      return bad_ends_.of(ticket);
    }
  }
  return outcome_of_closed(id, ticket);
}

Status Timeline::show(std::uint64_t id, std::uint64_t ticket) noexcept {
  Status ended = outcome(id, ticket);
  if (ended.ok()) return {};
  // relaxed: pairs with the stores in open() and close(), under the same lock.
  if (const auto lock = lock_or_fork(); lock && id_.load(std::memory_order_relaxed) == id)
    bad_ends_.see(ticket);
  return ended;
}

void Timeline::see(std::uint64_t id, const Status& failure) noexcept {
  // relaxed: pairs with the stores in open() and close(), under the same lock.
  if (const auto lock = lock_or_fork(); lock && id_.load(std::memory_order_relaxed) == id)
    bad_ends_.see(failure);
}

/// Called with the lock held. True if the timeline belongs to a device of this process: unseen
/// failures are then logged. Failures of a foreign timeline are not logged, because its holder
/// knows them.
bool Timeline::told_here() const noexcept {
  // relaxed: pairs with the stores in open() and close(), under the same lock.
  return id_.load(std::memory_order_relaxed) != 0 && !foreign_ && !in_forked_child();
}

void Timeline::tell_unseen(std::uint64_t ticket) noexcept {
  Status unseen;
  {
    const std::lock_guard lock(mutex_);
    if (told_here()) unseen = bad_ends_.take_unseen(ticket);
  }
  if (unseen.ok()) return;
  log_made(LogLevel::error, [&] { return "nobody asked for this failure: " + unseen.to_string(); });
}

void Timeline::tell_unseen() noexcept {
  BadEnds::Unseen unseen;
  {
    const auto lock = lock_or_fork();
    if (lock && told_here()) unseen = bad_ends_.take_unseen();
  }
  if (unseen.count == 0) return;
  log_made(LogLevel::error, [&] {
    const std::string more =
        unseen.count > 1 ? fmt::format(" (nor for {} more of '{}')", unseen.count - 1, name_) : "";
    return fmt::format("nobody asked for this failure{}: {}", more, unseen.one.to_string());
  });
}

void Timeline::at_exit() noexcept {
  for (Timeline* at = TimelinePool::get().last_made(); at != nullptr; at = at->made_before_)
    at->tell_unseen();
}

std::shared_ptr<Runner> Timeline::runner(const Event& event) const noexcept {
  // relaxed: pairs with the store in set_runner(). If the flag belongs to a later timeline by now,
  // the event's timeline is closed.
  if (!has_runner_.load(std::memory_order_relaxed)) return nullptr;
  const std::lock_guard lock(mutex_);
  return named_ == event.device_id() ? runner_.lock() : nullptr;
}

void Timeline::set_hand_over(const std::shared_ptr<HandOver>& hand_over) noexcept {
  const std::lock_guard lock(mutex_);
  hand_over_ = hand_over;
}

std::shared_ptr<HandOver> Timeline::hand_over(const Event& event) const noexcept {
  const std::lock_guard lock(mutex_);
  return named_ == event.device_id() ? hand_over_.lock() : nullptr;
}

std::string Timeline::name_of(std::uint64_t id) const {
  const auto lock = lock_or_fork();
  return lock && named_ == id ? name_ : "closed";
}

void Timeline::name_all_in_trace() noexcept {
  for (const Timeline* each = TimelinePool::get().last_made(); each != nullptr;
       each = each->made_before_)
    each->name_in_trace();
}

void trace::name_open_timelines() noexcept { Timeline::name_all_in_trace(); }

std::string Timeline::signaller_of(std::uint64_t id) const {
  const auto lock = lock_or_fork();
  if (!lock || named_ != id) return "nobody: it is closed";
  return fmt::format("{} '{}'", foreign_ ? "the holder of timeline" : "device", name_);
}

void Timeline::note(std::uint64_t from, std::uint64_t to, End end, const Status& status,
                    bool alone) noexcept {
  const std::lock_guard lock(mutex_);
  bad_ends_.add(from, to, end, status, alone);
  // release: pairs with the acquire in outcome().
  has_bad_ends_.store(true, std::memory_order_release);
}

bool Timeline::call_back(std::uint64_t ticket) noexcept {
  simulated_point();
  bool any = false;
  while (run_next_callback(ticket)) any = true;
  settle_put_off();
  return any;
}

/// Called with the lock held.
std::uint64_t Timeline::first_awaited() const noexcept {
  std::uint64_t first = Progress<>::nobody;
  for (const auto& calls : calls_) {
    if (!calls.empty()) first = std::min(first, calls.begin()->first);
  }
  return first;
}

/// Takes the first due callback and runs it; false: no callback is due.
bool Timeline::run_next_callback(std::uint64_t ticket) noexcept {
  Callback callback;
  {
    const std::lock_guard lock(mutex_);
    const auto due = std::ranges::find_if(calls_, [&](const auto& calls) {
      return !calls.empty() && calls.begin()->first <= ticket;
    });
    if (due == std::end(calls_)) return false;
    callback = std::move(due->begin()->second.second);
    due->erase(due->begin());
    progress_.expect_no_sooner_than(first_awaited());
  }
  run_callback(callback);
  return true;
}

std::uint64_t Timeline::call(std::uint64_t id, std::uint64_t ticket, Callback callback,
                             Caller caller) {
  if (!reached(id, ticket)) {
    before_allocation();
    simulated_point();
    const std::lock_guard lock(mutex_);
    // relaxed: pairs with the stores in open() and close(), under the same lock.
    if (id_.load(std::memory_order_relaxed) == id) {
      auto& calls = calls_[static_cast<std::size_t>(caller)];
      const auto entry = calls.emplace(ticket, std::pair(++last_call_, std::move(callback)));
      if (progress_.expect(first_awaited(), ticket)) return entry->second.first;
      // The completer may have missed the entry, and cannot take it while the lock is held.
      callback = std::move(entry->second.second);
      calls.erase(entry);
      progress_.expect_no_sooner_than(first_awaited());
    }
  }
  run_callback(callback);
  settle_put_off();
  return 0;
}

void Timeline::uncall(std::uint64_t call) noexcept {
  if (call == 0) return;
  const std::lock_guard lock(mutex_);
  auto& calls = calls_[static_cast<std::size_t>(Caller::waiter)];
  const auto at =
      std::ranges::find_if(calls, [&](const auto& entry) { return entry.second.first == call; });
  if (at == calls.end()) return;
  calls.erase(at);
  progress_.expect_no_sooner_than(first_awaited());
}

bool Timeline::wait(std::uint64_t id, std::uint64_t ticket,
                    std::optional<Clock::time_point> deadline,
                    std::chrono::nanoseconds spin) noexcept {
  const auto ended = [&] { return reached(id, ticket); };
  if (ended()) return true;
  if (deadline) spin = spin_before(*deadline, spin);
  // wraps round, hence is clamped, once the ticket has ended
  const auto pauses = [&] { return (ticket - completed()) / tuning::tasks_per_pause; };
  if (spin_until(ended, spin, pauses)) return true;
  // Shared with the callback, which may still run when a timed-out wait returns.
  std::shared_ptr<Parker> parker;
  std::uint64_t called = 0;
  try {
    parker = std::make_shared<Parker>();
    called = call(id, ticket, [parker] { parker->unpark(); });
  } catch (...) {
    // No memory for a parker or callback.
    while (!ended() && !(deadline && Clock::now() >= *deadline))
      std::this_thread::sleep_for(tuning::pause_without_memory);
    return ended();
  }
  const bool woken = parker->park(deadline);
  if (!woken) uncall(called);
  return woken || ended();
}

}  // namespace heddle::sched
