// Operations that need several parts of a device: awaiting its tasks, cancelling, and shutting down
// several devices together.
#include "scheduler/device/device_core.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "scheduler/device/clocks.hpp"
#include "scheduler/device/hooks.hpp"
#include "scheduler/device/waiting.hpp"
#include "scheduler/device/whole.hpp"
#include "scheduler/threads/task_context.hpp"

namespace heddle::sched {

static_assert(alignof(Admission) == tuning::line_bytes && alignof(Summons) == tuning::line_bytes &&
                  alignof(Control) == tuning::line_bytes &&
                  alignof(Consumer) == tuning::line_bytes && alignof(Drain) == tuning::line_bytes,
              "no two parts of a device share a cache line");

Identity::Identity(DeviceCore& device, DeviceOptions how, const SchedulerProfile& where,
                   std::shared_ptr<Runner> by, std::shared_ptr<Helpers> helped_by)
    : core(device),
      options(std::move(how)),
      profile(where),
      timeline(Timeline::open(options.name)),
      id(timeline->id()),
      fork_generation(sched::fork_generation()),
      simulated(options.mode == Mode::simulated),
      runner(std::move(by)),
      helpers(std::move(helped_by)) {
  timeline->set_runner(runner);
}

std::chrono::nanoseconds Identity::spin() const noexcept {
  return options.spin.value_or(profile.spin);
}

Status Identity::forked() const noexcept {
  return timeline->in_forked_child() ? timeline->fork_refusal() : Status();
}

bool Identity::inside_own_task() const noexcept {
  for (const TaskContext* at = current_task(); at != nullptr; at = at->outer) {
    if (at->device == &core) return true;
  }
  return false;
}

Status Identity::own_task_refusal(const char* what) const {
  return Status(ErrorCode::failed_precondition, [&] {
    return fmt::format(
        "device '{}': {} inside its own task '{}' could not end before the "
        "task does; do it from another "
        "thread or device",
        name(), what, current_task()->device->label());
  });
}

void HardwareQueue::give(const TaskDevice& device, std::shared_ptr<HardwareQueue> queue) {
  DeviceCore::in(device).late_ends()->have_hardware(std::move(queue));
}

DeviceCore::DeviceCore(DeviceOptions options, const SchedulerProfile& profile, OwnedRunner runner,
                       std::shared_ptr<Helpers> helpers)
    : device_(*this, std::move(options), profile, std::move(runner.runner), std::move(helpers)),
      admission_(device_, summons_, control_),
      summons_(device_),
      control_(device_),
      consumer_(device_, admission_, summons_, control_, drain_),
      drain_(device_, admission_, summons_, control_, consumer_.running(),
             std::move(runner.owner)) {}

Status DeviceCore::await(Deadline deadline) noexcept {
  if (device_.inside_own_task()) return device_.own_task_refusal("await");
  if (Status status = device_.forked(); !status.ok()) return status;
  // The epoch is read before `completed`: a task may fail after this line, and another thread may
  // clear the failure by recover() at once. failure_before_recovery() then finds the failure.
  const std::uint64_t epoch = control_.epoch();
  const std::uint64_t last = admission_.lane().tickets();
  if (device_.timeline->completed() < last) {
    const Event ended = device_.timeline->event(last);
    const Waited waited = wait_here(ended, deadline, device_.spin());
    if (waited == Waited::stopped || waited == Waited::refused) return status_of(waited, ended);
    if (waited == Waited::late) {
      return Status(ErrorCode::deadline, [&] {
        return fmt::format("device '{}': {} tasks had not ended at the deadline", device_.name(),
                           last - std::min(last, device_.timeline->completed()));
      });
    }
    if (Clocks::on()) Clocks::saw(ended);
    // Another thread may have recovered the device before this thread woke: the awaited tasks
    // failed all the same.
    if (auto failure = control_.failure_before_recovery(epoch)) return *std::move(failure);
  } else if (Clocks::on()) {
    Clocks::saw(device_.timeline->event(last));
  }
  return status();
}

bool DeviceCore::see_if_idle() const noexcept {
  const std::uint64_t last = admission_.lane().tickets();
  const bool idle = admission_.drained();
  if (idle && Clocks::on()) Clocks::saw(device_.timeline->event(last));
  return idle;
}

void DeviceCore::cancel_pending() noexcept {
  if (device_.timeline->in_forked_child()) return;
  control_.cancel(admission_.lane());
  settle_put_off();  // a suspended task may continue here
  if (device_.runner) look();
}

Status DeviceCore::shutdown(std::chrono::nanoseconds timeout) noexcept {
  DeviceCore* const self = this;
  return shutdown({&self, 1}, timeout);
}

Status DeviceCore::shutdown(std::span<DeviceCore* const> devices,
                            std::chrono::nanoseconds timeout) noexcept {
  Status first;
  const auto keep_first = [&first](Status status) {
    if (first.ok()) first = std::move(status);
  };
  for (DeviceCore* const device : devices) keep_first(device->drain_.close());
  const auto drain_until = [devices](Clock::time_point deadline) {
    bool all = true;
    for (DeviceCore* const device : devices) all = device->drain_.ends_by(deadline) && all;
    return all;
  };
  if (!drain_until(deadline_after(timeout))) {
    for (DeviceCore* const device : devices) {
      if (device->drain_.is_late()) device->cancel_pending();
    }
    drain_until(now() + tuning::stop_grace);
  }
  for (DeviceCore* const device : devices) keep_first(device->drain_.stop());
  if (Clocks::on()) {
    for (DeviceCore* const device : devices) device->see_if_idle();
  }
  return first;
}

std::shared_ptr<DeviceCore> Whole::keep(DeviceCore& device) noexcept {
  return device.shared_from_this();
}
std::weak_ptr<DeviceCore> Whole::watch(DeviceCore& device) noexcept {
  return device.weak_from_this();
}
const Timeline& Whole::timeline(const DeviceCore& device) noexcept { return device.timeline(); }
const char* Whole::label(const DeviceCore& device) noexcept { return device.label(); }
void Whole::look(DeviceCore& device) noexcept { device.look(); }
void Whole::look_later(DeviceCore& device) noexcept { device.look_later(); }
Status Whole::shut_down(DeviceCore& device, std::chrono::nanoseconds timeout) noexcept {
  return device.shutdown(timeout);
}
Waited Whole::wait_in_task(DeviceCore& device, const Event& event,
                           std::optional<Event::Clock::time_point> deadline,
                           bool heeds_stop) noexcept {
  return device.waits().in_task(event, deadline, heeds_stop);
}
Status Whole::take_refusal(DeviceCore& device) noexcept { return device.waits().take_refusal(); }

}  // namespace heddle::sched
