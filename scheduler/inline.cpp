// Waits of tasks, and the consumer of inline devices: whoever submits drains, on a fiber that a
// waiting task leaves, so that its caller goes on; who ends the wait goes on with it.
#include <fmt/format.h>

#include "scheduler/task_context.hpp"
#include "scheduler/worker.hpp"

namespace heddle::sched {
namespace {

/// What this thread has to go on with, first to last, and whether it does so already. Those who
/// touch it are not inlined: their callers may suspend, and go on in another thread with the
/// address of the first one's.
struct PutOff {
  std::shared_ptr<DeviceCore> device;
  DeviceCore* last_device = nullptr;
  std::shared_ptr<Fiber> fiber;
  Fiber* last_fiber = nullptr;
  bool going_on = false;
};
thread_local PutOff put_off;

/// `fiber` is unparked and this thread's.
[[gnu::noinline]] void put_off_resume(std::shared_ptr<Fiber> fiber) noexcept {
  Fiber* const last = fiber.get();
  (put_off.last_fiber == nullptr ? put_off.fiber : put_off.last_fiber->next) = std::move(fiber);
  put_off.last_fiber = last;
}

/// After `fiber` was left: its consumer ended, or suspended and leaves it to who ends the wait. The
/// device may be gone then, so this knows none.
void left(std::shared_ptr<Fiber> fiber, bool ended) noexcept {
  while (!ended) {
    if (fiber->park()) return;
    ended = fiber->resume();
  }
  Fiber::give_back(std::move(fiber));
}

}  // namespace

/// Says in snapshots what the running task waits for.
class DeviceCore::Waiting {
 public:
  Waiting(DeviceCore& core, const Event& event) : core_(core), traced_(event, core.id_) {
    core_.note_wait(event);
  }
  ~Waiting() { core_.note_wait({}); }
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;

 private:
  DeviceCore& core_;
  const trace::WaitScope traced_;
};

/// What snapshots say it waits for; the default event: nothing.
void DeviceCore::note_wait(const Event& event) noexcept {
  const auto now = Clock::now();
  const std::lock_guard lock(control_);
  waiting_for_ = event;
  waiting_since_ = now;
}

/// Suspends the running task until `event` is done or it is asked to stop. false: it cannot.
bool DeviceCore::suspend_until_ended(const Event& event) noexcept {
  run_put_off();  // this may be a callback that holds up the others of its event
  try {
    const std::stop_token stop = stop_token();
    const auto wake = [fiber = fiber_] {
      if (fiber->unpark()) put_off_resume(fiber);
    };
    const Waiting waiting(*this, event);
    const std::stop_callback on_stop(stop, wake);
    const std::uint64_t call = Timeline::call(event, wake);
    while (!event.done() && !stop.stop_requested()) suspend_task();
    Timeline::of(event)->uncall(call);
    return true;
  } catch (...) {
    return false;
  }
}

/// The event is done or the task is asked to stop, or `drain_until_` has passed: sleeps until then.
Status DeviceCore::sleep_until_ended(const Event& event) noexcept {
  run_put_off();
  const std::stop_token stop = stop_token();
  const auto ended = [&] { return event.done() || stop.stop_requested(); };
  // The consumer calls this, as it writes drain_until_.
  if (!spin_until(ended, drain_until_ ? std::chrono::nanoseconds(0) : spin())) {
    try {
      const auto parker = std::make_shared<Parker>();
      const Waiting waiting(*this, event);
      const std::stop_callback on_stop(stop, [parker] { parker->unpark(); });
      const std::uint64_t call = Timeline::call(event, [parker] { parker->unpark(); });
      while (!ended() && parker->park(drain_until_)) {
      }
      Timeline::of(event)->uncall(call);
    } catch (...) {  // no memory to sleep with: poll
      while (!ended() && !(drain_until_ && Clock::now() >= *drain_until_)) cpu_relax();
    }
  }
  if (event.done()) return event.status();
  return cancelled_wait(event);
}

Status DeviceCore::cancelled_wait(const Event& event) const {
  return Status(ErrorCode::cancelled, fmt::format("device '{}': the wait for {} was cancelled",
                                                  timeline_->name(), event.to_string()));
}

Status DeviceCore::wait_inside(const Event& event) noexcept {
  if (fiber_ && suspend_until_ended(event)) {
    if (event.done()) return event.status();
    return cancelled_wait(event);
  }
  return sleep_until_ended(event);
}

/// Sees to it that put_off_drain() is called once `event` is done; true: it is done already.
bool DeviceCore::arm(const Event& event) noexcept {
  if (armed_.call != 0 && armed_.event.timeline() == event.timeline() &&
      armed_.event.ticket() == event.ticket()) {
    return event.done();
  }
  disarm();
  try {
    armed_.call = Timeline::call(event, [self = weak_from_this()] {
      if (const auto core = self.lock()) core->put_off_drain();
    });
  } catch (...) {  // no memory to be called back
    event.wait();
    return true;
  }
  armed_.event = event;
  if (event.done()) {
    disarm();
    return true;
  }
  armed_.since = trace::stamp_if_on();
  note_wait(event);
  return false;
}

/// The gate that was armed is passed, or given up.
void DeviceCore::disarm() noexcept {
  if (armed_.call == 0) return;
  Timeline::of(armed_.event)->uncall(armed_.call);
  trace::record_wait(armed_.event, id_, armed_.since);
  armed_ = {};
  note_wait({});
  begin_trace();
}

/// Whoever raises the count from zero drains; the others have left their request in it, and it is
/// not given back to zero before a look at the queue that came after the last request.
void DeviceCore::drain() noexcept {
  // seq_cst: release pairs with the acquire of the exchange in drain_all(), so the drainer sees the
  // published task.
  if (drain_requests_.fetch_add(1, std::memory_order_seq_cst) > 0) return;
  fiber_ = Fiber::take();
  if (!fiber_) return drain_all();
  auto fiber = fiber_;
  const bool ended =
      fiber->start([](void* core) { static_cast<DeviceCore*>(core)->drain_all(); }, this);
  left(std::move(fiber), ended);
}

void DeviceCore::drain_all() noexcept {
  const auto self = shared_from_this();  // a task may drop the last handle
  TaskContext context{this, id_, 0, "", fiber_.get(), nullptr};
  const TaskScope scope(context);
  note_time();
  begin_trace();
  std::uint64_t handled = 1;
  while (true) {
    while (step(context) == Step::ran) {
    }
    // seq_cst: pairs with the requests above, and hands the consumer's state to the next drainer.
    if (drain_requests_.compare_exchange_strong(handled, 0, std::memory_order_seq_cst)) return;
  }
}

/// The event that an inline device waited for is done, and this thread ended it. Draining here and
/// now would nest as deep as devices wait for each other, and would hold up other devices that wait
/// for the same event: it is put off until all of them are called.
void DeviceCore::put_off_drain() noexcept {
  // acq_rel: pairs with the release in drain_put_off(): the list's link is ours now. If it is still
  // raised, its owner will look at the queue after this.
  if (put_off_.exchange(true, std::memory_order_acq_rel)) return;
  (put_off.last_device == nullptr ? put_off.device : put_off.last_device->next_put_off_) =
      shared_from_this();
  put_off.last_device = this;
}

void DeviceCore::drain_put_off() noexcept {
  while (put_off.fiber || put_off.device) {
    if (put_off.fiber) {
      auto fiber = std::move(put_off.fiber);
      put_off.fiber = std::move(fiber->next);
      if (!put_off.fiber) put_off.last_fiber = nullptr;
      const bool ended = fiber->resume();
      left(std::move(fiber), ended);
      continue;
    }
    const auto core = std::move(put_off.device);
    put_off.device = std::move(core->next_put_off_);
    if (!put_off.device) put_off.last_device = nullptr;
    // acq_rel: release pairs with the exchange in put_off_drain(); acquire: who found it raised
    // came before, so this drain sees the event done.
    core->put_off_.exchange(false, std::memory_order_acq_rel);
    core->drain();
  }
}

[[gnu::noinline]] void run_put_off() noexcept { DeviceCore::drain_put_off(); }

[[gnu::noinline]] void settle_put_off() noexcept {
  if (put_off.going_on || (!put_off.fiber && !put_off.device)) return;
  put_off.going_on = true;
  DeviceCore::drain_put_off();
  put_off.going_on = false;
}

}  // namespace heddle::sched
