// The handle Scheduler: which runner its devices have, by mode.
#include <fmt/format.h>

#include <algorithm>
#include <mutex>

#include "heddle/observe.hpp"
#include "scheduler/device/device_core.hpp"
#include "scheduler/device/empty_handle.hpp"
#include "scheduler/modes/pool.hpp"
#include "scheduler/observe/log.hpp"
#include "scheduler/observe/watchdog.hpp"
#include "scheduler/threads/fork.hpp"
#include "scheduler/threads/processors.hpp"

namespace heddle::sched {

struct SchedulerCore : std::enable_shared_from_this<SchedulerCore> {
  SchedulerOptions options;
  const std::uint32_t fork_generation = sched::fork_generation();
  std::mutex mutex;  // guards what follows
  bool closed = false;
  std::vector<std::weak_ptr<DeviceCore>> devices;
  std::shared_ptr<Pool> pooled, manual;  // once there is a device for it
  std::shared_ptr<Runner> simulator;     // runs all devices, if there is one

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
    return Pool::open(options.name, workers, options.device.spin.value_or(options.profile.spin),
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
  if (const auto workers = options.workers;
      workers && (*workers == 0 || *workers > sched::workers_max)) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("scheduler '{}': workers is {} (expected 1 to {} threads for all "
                            "pooled devices; mode manual has none)",
                            options.name, *workers, sched::workers_max));
  }
  if (options.watchdog && options.watchdog->count() <= 0) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("scheduler '{}': a watchdog's limit of {} ns (expected more than 0; "
                            "unset, there is no watchdog)",
                            options.name, options.watchdog->count()));
  }
  if (options.profile.spin.count() < 0) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("scheduler '{}': profile.spin {} ns (expected 0 or more)", options.name,
                            options.profile.spin.count()));
  }
  throw_if_failed(sched::read_log_level());
  const auto core = std::make_shared<sched::SchedulerCore>();
  core->options = std::move(options);
  // The watchdog holds the core itself while it looks; handles of the scheduler hold what ends it.
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

sched::TaskDevice Scheduler::new_named_device(std::string name) {
  sched::DeviceOptions options = core().options.device;
  options.name = std::move(name);
  return new_device(std::move(options));
}

sched::TaskDevice Scheduler::new_device(sched::DeviceOptions options) {
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
  sched::TaskDevice device =
      sched::DeviceCore::open(std::move(options), core_->options.profile, std::move(runner), &made);
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
bool Scheduler::simulated() const { return core().simulator != nullptr; }

}  // namespace heddle
