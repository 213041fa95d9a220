// The handles TaskDevice and ExternalTimeline: they forward to the cores.
#include <fmt/format.h>

#include <algorithm>
#include <mutex>

#include "scheduler/device/device_core.hpp"
#include "scheduler/device/empty_handle.hpp"
#include "scheduler/device/hooks.hpp"
#include "scheduler/observe/log.hpp"
#include "scheduler/threads/fork.hpp"
#include "scheduler/threads/never_destroyed.hpp"
#include "scheduler/threads/threads.hpp"

namespace heddle::sched {

TaskDevice::Handle::Handle(std::shared_ptr<DeviceCore> device) noexcept : core(std::move(device)) {}

TaskDevice::Handle::~Handle() {
  // Threads that end with this device end here, rather than where the last of them releases the
  // device.
  const auto last = core->abandon();
  core.reset();
}

namespace {

/// The name of an empty handle.
const std::string& no_name() noexcept {
  static NeverDestroyed<const std::string> name("(empty handle)");
  return *name;
}

}  // namespace

std::shared_ptr<DeviceCore> DeviceCore::of(const TaskDevice& device) noexcept {
  return device.core_->shared_from_this();
}

TaskDevice DeviceCore::open(DeviceOptions options, const SchedulerProfile& profile,
                            OwnedRunner runner, std::shared_ptr<Helpers> helpers,
                            std::shared_ptr<DeviceCore>* core) {
  const std::uint32_t queue_size = options.queue_size.value_or(tuning::queue_size_default);
  if (queue_size == 0 || queue_size > queue_size_max) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("device '{}': queue_size {} (expected 1 to {})", options.name,
                            queue_size, queue_size_max));
  }
  if (options.full > FullPolicy::deadline) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("device '{}': no policy {} for a full queue (see FullPolicy)",
                            options.name, static_cast<int>(options.full)));
  }
  if (options.in_flight > queue_size_max) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("device '{}': in_flight {} (expected 0 to {})", options.name,
                            options.in_flight, queue_size_max));
  }
  if (options.spin && options.spin->count() < 0) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("device '{}': spin {} ns (expected 0 or more)", options.name,
                            options.spin->count()));
  }
  options.in_flight = std::min(options.in_flight, queue_size);
  // Skipped in a simulation, which behaves the same on every machine.
  if (options.processor && options.mode != Mode::simulated)
    require_allowed(options.name, *options.processor);
  options.queue_size = queue_size;
  watch_forks();
  prepare_barriers();
  if (Hooks* const simulation = hooks(); options.mode == Mode::simulated && simulation != nullptr)
    simulation->before_open(options.name);
  std::shared_ptr<DeviceCore> made;
  try {
    before_allocation();
    made = std::make_shared<DeviceCore>(options, profile, std::move(runner), std::move(helpers));
  } catch (const std::bad_alloc&) {
    throw Error(ErrorCode::exhausted,
                fmt::format("device '{}': no memory for it and a queue of {} tasks; {}",
                            options.name, queue_size,
                            queue_size > tuning::queue_size_default
                                ? "lower its queue_size"
                                : "the process has no memory, address space or mappings left "
                                  "(vm.max_map_count: each thread takes two)"));
  }
  const auto handle = std::make_shared<TaskDevice::Handle>(made);
  if (!made->device_.runner) {
    made->drain_.join_later(
        start_thread(options.name, options.processor, [made] { made->consumer_.work(); }));
  }
  *core = made;
  return TaskDevice({handle, made.get()}, {made->device_.timeline.get(), made->device_.id});
}

Event TaskDevice::refuse_memory(Label label) noexcept {
  return Timeline::refused(Status(
      ErrorCode::exhausted, [&] { return fmt::format("no memory for task '{}'", label.c_str()); }));
}

Event TaskDevice::refuse(Status why) noexcept { return Timeline::refused(std::move(why)); }
Event TaskDevice::refuse_empty() noexcept { return Timeline::refused(empty_handle("TaskDevice")); }

Event TaskDevice::record() const noexcept { return core_ ? core_->record() : refuse_empty(); }
Event TaskDevice::wait(const Event& event) const noexcept {
  return core_ ? core_->admission().submit_wait(event) : refuse_empty();
}
Status TaskDevice::await() const noexcept {
  return core_ ? core_->await({}) : empty_handle("TaskDevice");
}
Status TaskDevice::await_for(std::chrono::nanoseconds timeout) const noexcept {
  return await_until(deadline_after(timeout));
}
Status TaskDevice::await_until(Clock::time_point deadline) const noexcept {
  return core_ ? core_->await(deadline) : empty_handle("TaskDevice");
}
bool TaskDevice::is_idle() const noexcept { return !core_ || core_->see_if_idle(); }
Status TaskDevice::status() const noexcept {
  return core_ ? core_->status() : empty_handle("TaskDevice");
}
Status TaskDevice::recover() const noexcept {
  return core_ ? core_->recover() : empty_handle("TaskDevice");
}
void TaskDevice::cancel_pending() const noexcept {
  if (core_) core_->cancel_pending();
}
Status TaskDevice::shutdown(std::chrono::nanoseconds timeout) const noexcept {
  return core_ ? core_->shutdown(timeout) : empty_handle("TaskDevice");
}
const std::string& TaskDevice::name() const noexcept {
  return core_ ? core_->options().name : no_name();
}
std::uint64_t TaskDevice::id() const noexcept { return core_ ? core_->timeline().id() : 0; }
Mode TaskDevice::mode() const noexcept { return core_ ? core_->options().mode : Mode::threaded; }
Counters TaskDevice::counters() const noexcept { return core_ ? core_->counters() : Counters(); }
Snapshot TaskDevice::snapshot() const {
  if (core_) return core_->snapshot();
  Snapshot nothing;
  nothing.device = no_name();
  nothing.status = empty_handle("TaskDevice");
  return nothing;
}

ExternalTimeline::ExternalTimeline(std::string name) {
  watch_forks();
  prepare_barriers();
  state_ = std::make_shared<ExternalState>(std::move(name));
}
Event ExternalTimeline::next() noexcept {
  return state_ ? state_->next() : Timeline::refused(empty_handle("ExternalTimeline"));
}
Status ExternalTimeline::signal(std::uint64_t ticket, Status status) noexcept {
  const auto state = state_;  // a callback may drop this handle
  return state ? state->signal(ticket, status) : empty_handle("ExternalTimeline");
}
const std::string& ExternalTimeline::name() const noexcept {
  return state_ ? state_->name() : no_name();
}

}  // namespace heddle::sched
