// The handles: Device, Scheduler, ExternalTimeline. Handles forward to the cores.
#include <fmt/format.h>

#include <algorithm>
#include <mutex>

#include "heddle/observe.hpp"
#include "scheduler/fork.hpp"
#include "scheduler/hooks.hpp"
#include "scheduler/log.hpp"
#include "scheduler/never_destroyed.hpp"
#include "scheduler/pool.hpp"
#include "scheduler/threads.hpp"
#include "scheduler/watchdog.hpp"
#include "scheduler/worker.hpp"

namespace heddle::sched {

Device::Handle::Handle(std::shared_ptr<DeviceCore> device) noexcept : core(std::move(device)) {}

Device::Handle::~Handle() {
  // Threads that end with this device end here, rather than where the last of them lets go of it.
  const auto last = core->abandon();
  core.reset();
}

namespace {

/// What is asked of a handle that holds nothing.
Status empty_handle(const char* what) {
  return Status(ErrorCode::failed_precondition, [&] {
    return fmt::format(
        "an empty {} handle (moved from or never set): use the one that it was "
        "moved to, or open another",
        what);
  });
}
/// The name of nothing.
const std::string& no_name() noexcept {
  static NeverDestroyed<const std::string> name("(empty handle)");
  return *name;
}

}  // namespace

std::shared_ptr<DeviceCore> DeviceCore::of(const Device& device) noexcept {
  return device.core_->shared_from_this();
}

Device DeviceCore::open(DeviceOptions options, OwnedRunner runner,
                        std::shared_ptr<DeviceCore>* core) {
  const std::uint32_t capacity = options.capacity.value_or(tuning::capacity_default);
  if (capacity == 0 || capacity > capacity_max) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("device '{}': capacity {} (expected 1 to {})", options.name, capacity,
                            capacity_max));
  }
  if (options.full > FullPolicy::deadline) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("device '{}': no policy {} for a full queue (see FullPolicy)",
                            options.name, static_cast<int>(options.full)));
  }
  // Not in a simulation, which is the same on any machine.
  if (options.processor && options.mode != Mode::simulated)
    require_allowed(options.name, *options.processor);
  options.capacity = capacity;
  watch_forks();
  prepare_barriers();
  if (Hooks* const simulation = hooks(); options.mode == Mode::simulated && simulation != nullptr)
    simulation->before_open(options.name);
  std::shared_ptr<DeviceCore> made;
  try {
    before_allocation();
    made = std::make_shared<DeviceCore>(options, std::move(runner));
  } catch (const std::bad_alloc&) {
    throw Error(ErrorCode::exhausted,
                fmt::format("device '{}': no memory for a queue of {} tasks; lower its capacity",
                            options.name, capacity));
  }
  const auto handle = std::make_shared<Device::Handle>(made);
  if (!made->runner_)
    made->thread_ = start_thread(options.name, options.processor, [made] { made->work(); });
  *core = made;
  return Device({handle, made.get()});
}

Event Device::refuse_memory(Label label) noexcept {
  return Timeline::refused(Status(
      ErrorCode::exhausted, [&] { return fmt::format("no memory for task '{}'", label.c_str()); }));
}

Event Device::refuse_empty() noexcept { return Timeline::refused(empty_handle("Device")); }

Event Device::record() const noexcept { return core_ ? core_->record() : refuse_empty(); }
Event Device::wait(const Event& event) const noexcept {
  return core_ ? core_->wait(event) : refuse_empty();
}
Status Device::await() const noexcept { return core_ ? core_->await({}) : empty_handle("Device"); }
Status Device::await_for(std::chrono::nanoseconds timeout) const noexcept {
  return await_until(deadline_after(timeout));
}
Status Device::await_until(Clock::time_point deadline) const noexcept {
  return core_ ? core_->await(deadline) : empty_handle("Device");
}
bool Device::is_idle() const noexcept { return !core_ || core_->is_idle(); }
Status Device::status() const noexcept { return core_ ? core_->status() : empty_handle("Device"); }
Status Device::recover() const noexcept {
  return core_ ? core_->recover() : empty_handle("Device");
}
void Device::cancel_pending() const noexcept {
  if (core_) core_->cancel_pending();
}
Status Device::shutdown(std::chrono::nanoseconds timeout) const noexcept {
  return core_ ? core_->shutdown(timeout) : empty_handle("Device");
}
const std::string& Device::name() const noexcept {
  return core_ ? core_->options().name : no_name();
}
std::uint64_t Device::id() const noexcept { return core_ ? core_->timeline().id() : 0; }
Mode Device::mode() const noexcept { return core_ ? core_->options().mode : Mode::threaded; }
Counters Device::counters() const noexcept { return core_ ? core_->counters() : Counters(); }
Snapshot Device::snapshot() const {
  if (core_) return core_->snapshot();
  Snapshot nothing;
  nothing.device = no_name();
  nothing.status = empty_handle("Device");
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

struct SchedulerCore : std::enable_shared_from_this<SchedulerCore> {
  SchedulerOptions options;
  const std::uint32_t fork_generation = sched::fork_generation();
  std::mutex mutex;  // guards what follows
  bool closed = false;
  std::vector<std::weak_ptr<DeviceCore>> devices;
  std::shared_ptr<Pool> pooled, manual;  // once there is a device for it
  std::shared_ptr<Runner> simulator;     // of all devices, if there is one

  /// What runs devices of this mode. Under the lock.
  OwnedRunner runner(Mode mode) {
    switch (mode) {
      case Mode::threaded:
        return {};
      case Mode::inline_:
        return {inline_runner(), nullptr};
      case Mode::pooled:
        if (!pooled) pooled = open_pool(options.workers.value_or(available_processors()));
        return {pooled->shared_from_this(), pooled};
      case Mode::manual:
        if (!manual) manual = open_pool(0);
        return {manual->shared_from_this(), manual};
      case Mode::simulated:
        if (simulator) return {simulator, nullptr};
        throw Error(
            ErrorCode::invalid_argument,
            fmt::format("scheduler '{}': simulated devices are opened by the scheduler of a "
                        "Simulation (heddle/simulation.hpp)",
                        options.name));
    }
    throw Error(ErrorCode::invalid_argument,
                fmt::format("scheduler '{}': no mode {}", options.name, static_cast<int>(mode)));
  }
  [[nodiscard]] std::shared_ptr<Pool> open_pool(unsigned workers) const {
    return Pool::open(options.name, workers, options.device.spin.value_or(tuning::spin_default),
                      options.pin_workers);
  }
  /// Threads and holders of locks are not in a forked child: nothing is done there.
  [[nodiscard]] bool forked() const noexcept { return sched::fork_generation() != fork_generation; }
  [[nodiscard]] Status refusal_if_forked() const {
    if (!forked()) return {};
    return Status(ErrorCode::unavailable, [&] {
      return fmt::format(
          "scheduler '{}': forked: this process is a child of the one that "
          "made it; make another",
          options.name);
    });
  }
  /// What runs manual devices; null when there are none.
  [[nodiscard]] std::shared_ptr<Pool> host_pool() {
    if (forked()) return nullptr;
    const std::lock_guard lock(mutex);
    return manual;
  }
  std::unique_ptr<Watchdog> watchdog;  // once there is a device to watch

  std::vector<std::shared_ptr<DeviceCore>> live() {
    if (forked()) return {};
    const std::lock_guard lock(mutex);
    std::vector<std::shared_ptr<DeviceCore>> result;
    for (const auto& weak : devices) {
      if (auto core = weak.lock()) result.push_back(std::move(core));
    }
    return result;
  }
  [[nodiscard]] std::vector<Snapshot> snapshot() {
    std::vector<Snapshot> result;
    for (const auto& device : live()) result.push_back(device->snapshot());
    return result;
  }
};

}  // namespace heddle::sched

namespace heddle {

Scheduler::Scheduler(SchedulerOptions options) {
  if (options.workers == 0U) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("scheduler '{}': 0 workers for pooled devices (expected at least 1; "
                            "mode manual has none)",
                            options.name));
  }
  if (options.watchdog && options.watchdog->count() <= 0) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("scheduler '{}': a watchdog's limit of {} ns (expected more than 0; "
                            "unset, there is no watchdog)",
                            options.name, options.watchdog->count()));
  }
  throw_if_failed(sched::read_log_level());
  const auto core = std::make_shared<sched::SchedulerCore>();
  core->options = std::move(options);
  // The watchdog holds the core itself while it looks; who holds a scheduler holds what ends it.
  core_ = {core.get(), [core](sched::SchedulerCore*) { core->watchdog.reset(); }};
}

Scheduler::Scheduler(SchedulerOptions options, std::shared_ptr<sched::Runner> simulator)
    : Scheduler(std::move(options)) {
  core_->simulator = std::move(simulator);
}

sched::SchedulerCore& Scheduler::core() const {
  if (!core_) throw Error(sched::empty_handle("Scheduler"));
  return *core_;
}

sched::Device Scheduler::new_device(std::string name) {
  sched::DeviceOptions options = core().options.device;
  options.name = std::move(name);
  return new_device(std::move(options));
}

sched::Device Scheduler::new_device(sched::DeviceOptions options) {
  if (Status status = core().refusal_if_forked(); !status.ok()) throw Error(std::move(status));
  const std::lock_guard lock(core_->mutex);
  if (core_->closed) {
    throw Error(ErrorCode::unavailable,
                fmt::format("scheduler '{}' is shut down: device '{}' cannot be opened",
                            core_->options.name, options.name));
  }
  if (core_->simulator) options.mode = sched::Mode::simulated;
  if (core_->options.watchdog && !core_->watchdog) {
    core_->watchdog = std::make_unique<sched::Watchdog>(
        core_->options.name, *core_->options.watchdog,
        [core = core_->weak_from_this()] {
          const auto held = core.lock();
          return held ? held->snapshot() : std::vector<sched::Snapshot>();
        },
        core_->options.on_overdue);
  }
  std::shared_ptr<sched::DeviceCore> made;
  auto runner = core_->runner(options.mode);
  sched::Device device = sched::DeviceCore::open(std::move(options), std::move(runner), &made);
  std::erase_if(core_->devices, [](const auto& weak) { return weak.expired(); });
  core_->devices.push_back(made);
  return device;
}

bool Scheduler::poll(std::chrono::nanoseconds budget) {
  const auto pool = core().host_pool();
  return pool && pool->poll(sched::deadline_after(budget));
}

bool Scheduler::run_one(std::chrono::nanoseconds budget) {
  const auto pool = core().host_pool();
  return pool && pool->run_one(sched::deadline_after(budget));
}

int Scheduler::descriptor() {
  if (Status status = core().refusal_if_forked(); !status.ok()) throw Error(std::move(status));
  const std::lock_guard lock(core_->mutex);
  static_cast<void>(core_->runner(sched::Mode::manual));
  return core_->manual->descriptor();
}

Status Scheduler::shutdown(std::chrono::nanoseconds timeout) {
  if (!core_) return sched::empty_handle("Scheduler");
  if (Status status = core_->refusal_if_forked(); !status.ok()) return status;
  {
    const std::lock_guard lock(core_->mutex);
    core_->closed = true;
  }
  const auto live = core_->live();
  std::vector<sched::DeviceCore*> devices;
  for (const auto& device : live) devices.push_back(device.get());
  return sched::DeviceCore::shutdown(devices, timeout);
}

std::vector<sched::Snapshot> Scheduler::snapshot() const { return core().snapshot(); }

}  // namespace heddle
