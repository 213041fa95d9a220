// Completions: which thread ends a task in flight, and when.
#include "scheduler/device/clocks.hpp"
#include "scheduler/device/device_core.hpp"
#include "scheduler/threads/task_context.hpp"

namespace heddle::sched {

Completion Completion::of_running_task() noexcept {
  const TaskContext& task = *current_task();
  task.device->late_ends()->expect_report(task.ticket);
  return {task.device->shared_from_this(), task.ticket};
}

Completion& Completion::operator=(Completion&& other) noexcept {
  Completion before(std::move(*this));
  core_ = std::move(other.core_);
  ticket_ = other.ticket_;
  return *this;
}

Completion::~Completion() {
  if (core_ == nullptr) return;
  end(Status(ErrorCode::device_failed,
             "its Completion was dropped before it said how the task ended"));
}

Status Completion::end(Status status) noexcept {
  // keeps the device alive during this call
  const std::shared_ptr<DeviceCore> core = std::move(core_);
  if (core == nullptr) {
    return Status(ErrorCode::failed_precondition,
                  "this Completion has ended its task already, or was moved from");
  }
  // The parent process has the same waiters and callbacks, and they would run twice.
  if (core->timeline().in_forked_child()) return core->timeline().fork_refusal();
  if (Clocks::on()) Clocks::ends(core->timeline().id(), ticket_, false);
  core->late_ends()->reported(ticket_, std::move(status));
  return {};
}

}  // namespace heddle::sched
