// Pool: the ready queue, its workers and hosts. Turns run on fibers. A waiting task leaves its
// fiber until the wait ends; the thread then continues the loop on a new fiber.
#include "scheduler/modes/pool.hpp"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <optional>

#include "heddle/observe.hpp"
#include "scheduler/device/device_core.hpp"
#include "scheduler/modes/pool_descriptor.hpp"
#include "scheduler/observe/log.hpp"
#include "scheduler/sanitizers.hpp"
#include "scheduler/threads/fork.hpp"
#include "scheduler/threads/processors.hpp"
#include "scheduler/threads/spin.hpp"
#include "scheduler/threads/threads.hpp"

namespace heddle::sched {

/// A thread's stay in the pool: purpose and deadline.
struct Pool::Visit {
  enum class Kind : std::uint8_t { worker, poll, once, until };
  explicit Visit(Pool& here, Kind what, Deadline until_when = {})
      : pool(&here), kind(what), deadline(until_when), token(here.queue_) {}

  Pool* pool;
  Kind kind;
  Deadline deadline;
  moodycamel::ConsumerToken token;
  const Event* until = nullptr;
  Sleepers::Place* place = nullptr;  // the place to sleep in, if sleeping is allowed
  Fiber* fiber = nullptr;            // runs turns
  bool any = false;                  // at least one turn ran
  bool keeps_time = false;           // sleeps no longer than until the next timer
  bool over = false;                 // the visit ends
};

Pool::Pool(std::string name, std::chrono::nanoseconds spin, bool hosted)
    : name_(std::move(name)), spin_(spin), hosted_(hosted), fork_generation_(fork_generation()) {}

Pool::~Pool() {
  // relaxed: pairs with the store in descriptor(); no other thread uses the pool any more.
  delete descriptor_.load(std::memory_order_relaxed);
}

std::shared_ptr<Pool> Pool::open(std::string name, unsigned workers, std::chrono::nanoseconds spin,
                                 bool pin) {
  const std::shared_ptr<Pool> pool(new Pool(std::move(name), spin, workers == 0));
  pool->start_workers(workers, pin);
  // Workers own the pool itself; the result owns the call that ends them.
  return {pool.get(), [pool](Pool*) { pool->stop(); }};
}

void Pool::start_workers(unsigned count, bool pin) {
  const std::vector<unsigned> processors = allowed_processors();
  workers_.reserve(count);  // keeps every started thread
  for (unsigned k = 0; k < count; ++k) {
    try {
      std::optional<unsigned> processor;
      if (pin && !processors.empty()) processor = processors[k % processors.size()];
      workers_.push_back(start_thread(
          fmt::format("{}/{}", name_, k), processor,
          [self = shared_from_this(), &place = sleepers_.join()] { self->work(place); }));
    } catch (const std::exception& e) {
      if (k == 0) throw;
      log_made(LogLevel::warn, [&] {
        return fmt::format("pool '{}' has {} of {} workers: {}", name_, k, count, e.what());
      });
      return;
    }
  }
}

/// Every task of every device has ended. Devices may still be queued for a last look.
void Pool::stop() noexcept {
  std::vector<std::thread> workers;
  if (fork_generation() != fork_generation_) {
    // In a forked child the threads do not exist, their memory may be reused, and the mutex may be
    // held for ever.
    static_cast<void>(new std::vector<std::thread>(std::move(workers_)));
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    workers.swap(workers_);
    // seq_cst: pairs with the load in stopping(): a thread that pushes after drop_ready() sees the
    // flag.
    stop_.store(true, std::memory_order_seq_cst);
  }
  sleepers_.wake_all();
  const bool inside = std::ranges::any_of(
      workers, [](const auto& w) { return w.get_id() == std::this_thread::get_id(); });
  for (std::thread& worker : workers) {
    if (inside) {
      worker.detach();  // a task dropped the last device; the workers end by themselves
    } else {
      worker.join();
    }
  }
  drop_ready();
}

/// A queued entry holds its device, and the device holds this pool.
void Pool::drop_ready() noexcept {
  moodycamel::ConsumerToken token(queue_);
  Ready ready;
  while (!count_.empty()) {
    if (take(token, ready)) ready = {};
  }
}

void Pool::work(Sleepers::Place& place) noexcept {
  Visit mine(*this, Visit::Kind::worker);
  mine.place = &place;
  while (!stopping()) visit(mine);
}

// Ready entries.

void Pool::run(DeviceCore& device) noexcept { push({device.shared_from_this(), nullptr}); }
void Pool::look_later(DeviceCore& device) noexcept { device.look(); }
void Pool::resume(std::shared_ptr<Fiber> fiber) noexcept { push({nullptr, std::move(fiber)}); }
void Pool::send_to(std::shared_ptr<HelperPlace> place) noexcept {
  push({.place = std::move(place)});
}

void Pool::push(Ready ready) noexcept {
  put_in_inbox(std::move(ready));
  if (count_.add()) wake_one();
  // seq_cst: pairs with the store in descriptor(): a thread that misses the descriptor has counted
  // its entry before the opener's first look.
  if (auto* const descriptor = descriptor_.load(std::memory_order_seq_cst)) descriptor->signal();
  if (stopping()) drop_ready();
}

void Pool::put_in_inbox(Ready ready) noexcept {
  ReadyLink& link = ready.device  ? ready.device->summons().ready_link()
                    : ready.fiber ? ready.fiber->ready_link
                                  : ready.place->ready_link();
  link.self = std::move(ready);
  inbox_.push(link);
}

bool Pool::take(moodycamel::ConsumerToken& token, Ready& ready) noexcept {
  if (!count_.take()) return false;
  // A counted entry exists, though other threads may be taking earlier entries, or moving entries
  // from the inbox to the queue.
  for (int look = 1;; ++look) {
    {
      const OrderedByFences ordered;  // the queue frees blocks after a fence
      if (queue_.try_dequeue(token, ready)) return true;
    }
    if (empty_inbox(ready)) return true;
    cpu_relax();
    if (look % tuning::spins_per_clock_read == 0) ::sched_yield();
  }
}

/// Returns the oldest inbox entry to the caller and moves the rest to the queue, for all workers.
bool Pool::empty_inbox(Ready& first) noexcept {
  ReadyLink* link = inbox_.take_all();
  if (link == nullptr) return false;
  ReadyLink* others = link->next;
  first = std::move(link->self);
  while (others != nullptr) {
    link = std::exchange(others, others->next);
    Ready other = std::move(link->self);
    const OrderedByFences ordered;  // the queue frees blocks after a fence
    // Without memory the entry returns to the inbox.
    if (!queue_.enqueue(std::move(other))) put_in_inbox(std::move(other));
  }
  return true;
}

void Pool::wake_one() noexcept {
  Sleepers::Place* const sleeper = sleepers_.take(count_);
  if (sleeper == nullptr) return;
  trace::note_wake(0);
  sleeper->parker.unpark();
}

void Pool::sleep(Visit& visit) noexcept {
  Sleepers::Place& place = *visit.place;
  const bool nothing = count_.sleep(place.flag);
  // Read after the sleeper is announced: the thread sees a timer added before that.
  Deadline deadline = visit.deadline;
  const auto alarm = timers_.next();
  visit.keeps_time = alarm != Clock::time_point::max();
  if (visit.keeps_time && (!deadline || alarm < *deadline)) deadline = alarm;
  const std::uint64_t since = trace::stamp_if_on();
  if (nothing && !stopping()) place.parker.park(deadline);
  trace::record_park(0, since);
  static_cast<void>(count_.wake(place.flag));
}

// Timers.

std::uint64_t Pool::call_at(Clock::time_point when, std::function<void()> callback) {
  bool earlier = false;
  const std::uint64_t call = timers_.add(when, std::move(callback), earlier);
  if (earlier) {
    wake_one();
    // acquire: pairs with the store in descriptor().
    if (auto* const descriptor = descriptor_.load(std::memory_order_acquire))
      descriptor->set_alarm(when);
  }
  return call;
}

void Pool::uncall(Clock::time_point when, std::uint64_t call) noexcept {
  timers_.remove(when, call);
}

void Pool::run_timers() noexcept {
  if (timers_.next() == Clock::time_point::max()) return;
  timers_.run_due(Clock::now());
}

// Turns.

/// True if a task continued or ended.
bool Pool::give_turn(Ready& ready, Fiber* fiber, std::uint32_t tasks_max) noexcept {
  bool any = true;
  if (ready.fiber) {
    const bool ended = ready.fiber->resume();
    leave_fiber(std::move(ready.fiber), ended);
  } else if (ready.place) {
    const auto nothing_else = [](const void* pool) noexcept {
      return static_cast<const Pool*>(pool)->count_.empty();
    };
    if (!ready.place->visit(nothing_else, this)) push(std::move(ready));
  } else {
    const auto device = std::move(ready.device);
    const std::uint64_t before = device->at();
    if (device->take_turn(fiber, tasks_max)) push({device, nullptr});
    any = device->at() != before;
  }
  ready = {};
  return any;
}

/// The next entry for this visitor; false: the visit ends.
bool Pool::next(Visit& visit, Ready& ready) noexcept {
  const auto called_away = [&] {
    return visit.kind == Visit::Kind::until ? visit.until->done() : stopping();
  };
  // A thread that no longer watches the next timer hands the watch to another sleeper.
  const auto hand_on_time = [&](bool result) {
    const bool kept = std::exchange(visit.keeps_time, false);
    if (kept && timers_.next() != Clock::time_point::max()) wake_one();
    return result;
  };
  while (true) {
    run_timers();
    if (called_away()) return hand_on_time(false);
    if (take(visit.token, ready)) {
      if (count_.more()) wake_one();
      return hand_on_time(true);
    }
    if (visit.kind == Visit::Kind::poll) return false;
    count_.begin_look();
    const Clock::time_point alarm = timers_.next();
    const bool found =
        spin_until([&] { return !count_.empty() || called_away() || timers_.next() < alarm; },
                   spin_before(visit.deadline ? std::min(*visit.deadline, alarm) : alarm, spin_));
    const bool taken = take(visit.token, ready);
    if (count_.end_look()) wake_one();
    if (taken) return hand_on_time(true);
    if (found) continue;
    if (visit.deadline && Clock::now() >= *visit.deadline) return hand_on_time(false);
    sleep(visit);
  }
}

void Pool::go_round(Visit& visit, Fiber* fiber) noexcept {
  const unsigned suspensions = fiber != nullptr ? fiber->suspensions() : 0;
  const bool once = visit.kind == Visit::Kind::once;
  Ready ready;
  while (next(visit, ready)) {
    // set early for a task that leaves the fiber
    const bool any_before = std::exchange(visit.any, true);
    visit.over = once;
    const bool any = give_turn(ready, fiber, once ? 1 : tuning::turn_tasks_max);
    // A task waited: the visitor, which owns `visit`, has continued elsewhere, and the fiber ends
    // on another visit.
    if (fiber != nullptr && fiber->suspensions() != suspensions) return;
    visit.any = any_before || any;
    visit.over = once && any;
    if (visit.over) return;
    if (visit.deadline && Clock::now() >= *visit.deadline) break;
  }
  visit.over = true;
}

void Pool::visit_on_fiber(void* visit) noexcept {
  auto& mine = *static_cast<Visit*>(visit);
  mine.pool->go_round(mine, mine.fiber);
}

void Pool::visit(Visit& visit) noexcept {
  auto fiber = Fiber::take();
  if (!fiber) return go_round(visit, nullptr);
  visit.fiber = fiber.get();
  const bool ended = fiber->start(&Pool::visit_on_fiber, &visit);
  leave_fiber(std::move(fiber), ended);
}

// Hosts.

bool Pool::poll(Deadline deadline) noexcept {
  Visit mine(*this, Visit::Kind::poll, deadline);
  while (!mine.over) visit(mine);
  settle_descriptor();
  return mine.any;
}

/// Called after a host's stay: makes the descriptor readable for ready entries and at the next
/// timer.
void Pool::settle_descriptor() noexcept {
  // acquire: pairs with the store in descriptor().
  PoolDescriptor* const descriptor = descriptor_.load(std::memory_order_acquire);
  if (descriptor == nullptr) return;
  descriptor->clear();
  descriptor->set_alarm(timers_.next());
  if (!count_.empty()) descriptor->signal();  // entries came meanwhile
}

bool Pool::run_one(Deadline deadline) noexcept {
  try {
    const Sleepers::Stay stay(sleepers_);
    Visit mine(*this, Visit::Kind::once, deadline);
    mine.place = &stay.place;
    while (!mine.over) visit(mine);
    if (!count_.empty()) wake_one();  // the wake of this thread may have been meant for it
    settle_descriptor();
    return mine.any;
  } catch (const std::bad_alloc&) {
    return poll(deadline);
  }
}

std::optional<bool> Pool::run_until(const Event& event, Deadline deadline) noexcept {
  if (!hosted_) return std::nullopt;
  try {
    const Sleepers::Stay stay(sleepers_);
    Visit mine(*this, Visit::Kind::until, deadline);
    mine.until = &event;
    mine.place = &stay.place;
    const std::uint64_t call = Timeline::call(
        event, [self = shared_from_this(), place = &stay.place] { place->parker.unpark(); });
    while (!mine.over) visit(mine);
    Timeline::of(event)->uncall(call);
    if (!count_.empty()) wake_one();  // the wake of this thread may have been meant for it
    settle_descriptor();
    return Timeline::has_ended(event);
    // no memory for a place to sleep in, and there may be no other host
  } catch (const std::bad_alloc&) {
    while (!Timeline::has_ended(event)) {
      if (deadline && Clock::now() >= *deadline) return false;
      if (!poll(deadline)) ::sched_yield();
    }
    return true;
  }
}

int Pool::descriptor() {
  const std::lock_guard lock(mutex_);
  // relaxed: pairs with the store below, under the same lock.
  PoolDescriptor* mine = descriptor_.load(std::memory_order_relaxed);
  if (mine == nullptr) {
    mine = new PoolDescriptor;
    // seq_cst: pairs with the loads of the descriptor's users. The descriptor is readable until
    // settled, for earlier entries.
    descriptor_.store(mine, std::memory_order_seq_cst);
    settle_descriptor();
  }
  return mine->get();
}

}  // namespace heddle::sched
