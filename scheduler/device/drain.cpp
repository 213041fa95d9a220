// Shutdown, and tasks left behind by it.
#include "scheduler/device/drain.hpp"

#include <fmt/format.h>

#include <utility>

#include "heddle/observe.hpp"
#include "scheduler/device/hooks.hpp"
#include "scheduler/device/waiting.hpp"
#include "scheduler/device/whole.hpp"
#include "scheduler/observe/log.hpp"
#include "scheduler/threads/task_context.hpp"

namespace heddle::sched {

bool Drain::may_shut_down() const noexcept {
  return !device_.timeline->in_forked_child() && !device_.inside_own_task() && !is_told_here() &&
         !in_part();
}

/// The remaining tasks end only after the callback that runs this call.
bool Drain::is_told_here() const noexcept { return sched::is_told_here(last()); }

Event Drain::last() const noexcept { return device_.timeline->event(admission_.lane().tickets()); }

/// With heavy_barrier(): a completer finding the lane open has ended tickets, and this thread sees
/// their ends.
void Drain::close_lane() noexcept {
  admission_.lane().close();
  if (device_.options.in_flight != 0) heavy_barrier();
}

Status Drain::close() noexcept {
  if (Status status = device_.forked(); !status.ok()) return status;
  close_lane();
  if (device_.inside_own_task()) return device_.own_task_refusal("shutdown");
  if (in_part()) return part_refusal(fmt::format("shutdown of device '{}'", device_.name()));
  if (is_told_here()) {
    return Status(ErrorCode::failed_precondition, [&] {
      return fmt::format(
          "device '{}': shutdown in a callback on the thread that tells what ends on its "
          "completion domain could not end before the callback does; do it from another thread",
          device_.name());
    });
  }
  simulated_point();
  return {};
}

bool Drain::ends_by(Event::Clock::time_point deadline) noexcept {
  if (!may_shut_down()) return true;
  return wait_here(last(), deadline, device_.spin(), false) == Waited::done;
}

bool Drain::is_late() const noexcept { return !admission_.drained() && may_shut_down(); }

namespace {
/// Describes the tasks that a shutdown leaves to end by themselves, by the label of the running
/// task.
std::string left_task(const char* label) {
  return *label == '\0' ? "what is queued" : fmt::format("task '{}'", label);
}
}  // namespace

Status Drain::stop() noexcept {
  if (!may_shut_down()) return {};
  const bool all = admission_.drained();
  // release: pairs with the exchange in tell_left_ended().
  if (!all) left_.store(running_.label(), std::memory_order_release);
  stop_worker(all);
  control_.tell_failure();
  if (all) return {};
  if (device_.runner) summons_.look();  // the tasks may have ended meanwhile
  return Status(ErrorCode::deadline, [&] {
    return fmt::format(
        "device '{}': {} did not end by the deadline, nor when asked to "
        "stop; it is left to end by itself",
        device_.name(), left_task(running_.label()));
  });
}

void Drain::stop_worker(bool join) noexcept {
  // release: pairs with the acquire in stopping(); the barriers make at least one store visible to
  // the other thread.
  stop_.store(true, std::memory_order_release);
  summons_.rouse();
  const std::lock_guard lock(join_);
  if (!thread_.joinable()) return;
  if (join) {
    thread_.join();
  } else {
    thread_.detach();  // the thread keeps the device alive
  }
}

void Drain::tell_left_ended() noexcept {
  // relaxed: pairs with the release in stop(); the exchange below validates the value.
  if (left_.load(std::memory_order_relaxed) == nullptr || !admission_.drained()) return;
  // acquire: pairs with the release in stop().
  const char* const label = left_.exchange(nullptr, std::memory_order_acquire);
  log_made(LogLevel::warn, [&] {
    return fmt::format(
        "device '{}': {}, which a shutdown left to end by itself, "
        "has ended",
        device_.name(), left_task(label));
  });
}

/// Queued tasks end without a handle that keeps the device alive.
void Drain::abandon_inside() noexcept {
  const Event::Clock::time_point until = deadline_after(device_.options.drain_max);
  // release, here and below: pairs with the acquire in until().
  if (!device_.runner) {
    until_.store(until, std::memory_order_release);
    return stop_worker(false);
  }
  try {
    const auto look_again = [self = Whole::watch(device_.core)] {
      if (const auto core = self.lock()) Whole::look(*core);
    };
    alarm_ = device_.runner->call_at(until, look_again);
    if (alarm_ != 0) {
      kept_ = Whole::keep(device_.core);
      // release: pairs with the acquire in until(), and publishes kept_.
      until_.store(until, std::memory_order_release);
      return;
    }
  } catch (...) {  // no memory for an alarm: continues as without one
  }
  until_.store(now(), std::memory_order_release);  // release: pairs with the acquire in until()
}

std::shared_ptr<DeviceCore> Drain::give_up() noexcept {
  const Deadline until = this->until();
  if (!until || !kept_ || !admission_.drained()) return nullptr;
  device_.runner->uncall(*until, alarm_);
  return std::move(kept_);
}

std::shared_ptr<void> Drain::abandon() noexcept {
  // The worker does not exist in a forked child, and its locks may be held for ever.
  if (device_.timeline->in_forked_child()) return nullptr;
  if (device_.inside_own_task() || is_told_here() || in_part()) {
    close_lane();
    abandon_inside();  // the timeline's close logs failures until then
    return nullptr;
  }
  // acquire: pairs with the release in stop(). A shutdown that already reported a task as still
  // running waits no more.
  if (left_.load(std::memory_order_acquire) != nullptr) {
    device_.timeline->tell_unseen();
    return nullptr;
  }
  if (Status status = Whole::shut_down(device_.core, device_.options.drain_max);
      !status.ok() && status.code() != ErrorCode::unavailable) {
    log_made(LogLevel::warn, [&] { return status.to_string(); });
  }
  device_.timeline->tell_unseen();
  return admission_.drained() ? std::move(runner_owner_) : nullptr;
}

}  // namespace heddle::sched
