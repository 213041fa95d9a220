// The handle Scheduler: chooses the runner of each device by mode.
#include <fmt/format.h>

#include <algorithm>
#include <mutex>

#include "heddle/observe.hpp"
#include "scheduler/device/device_core.hpp"
#include "scheduler/device/empty_handle.hpp"
#include "scheduler/device/helpers.hpp"
#include "scheduler/modes/any_devices.hpp"
#include "scheduler/modes/opening.hpp"
#include "scheduler/modes/pool.hpp"
#include "scheduler/observe/log.hpp"
#include "scheduler/observe/watchdog.hpp"
#include "scheduler/threads/fork.hpp"
#include "scheduler/threads/processors.hpp"

namespace heddle::sched {

struct SchedulerCore : std::enable_shared_from_this<SchedulerCore> {
  SchedulerOptions options;
  const std::uint32_t fork_generation = sched::fork_generation();
  std::mutex mutex;  // guards the members below
  bool closed = false;
  struct Opened {
    std::weak_ptr<DeviceCore> core;
    bool any = false;  // a device of submit_any()
  };
  std::vector<Opened> devices;
  std::shared_ptr<AnyDevices> any;       // set by the first submit_any()
  std::shared_ptr<Pool> pooled, manual;  // set by the first device of the mode
  unsigned pool_workers = 0;             // of `pooled`
  std::shared_ptr<Runner> simulator;     // runs all devices if not null
  std::shared_ptr<Helpers> helpers;      // set by the first device

  /// The helpers of devices with parts of tasks. Called with the lock held. Throws std::bad_alloc.
  [[nodiscard]] const std::shared_ptr<Helpers>& helpers_of_devices() {
    if (!helpers) {
      helpers = std::make_shared<Helpers>(
          HelpersOptions{options.name, options.width,
                         options.device.spin.value_or(options.profile.spin), options.pin_workers});
    }
    return helpers;
  }
  /// The runner for devices of this mode. Called with the lock held.
  OwnedRunner runner(Mode mode) {
    switch (mode) {
      case Mode::threaded:
        return {};
      case Mode::inline_:
        return {inline_runner(), nullptr};
      case Mode::pooled:
        if (!pooled) {
          pool_workers = options.workers.value_or(available_processors());
          pooled = open_pool(pool_workers);
          helpers->be_visited(pooled->shared_from_this(), pool_workers);
        }
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
  /// Null after shutdown(). Throws std::bad_alloc.
  [[nodiscard]] std::shared_ptr<AnyDevices> any_devices() {
    const std::lock_guard lock(mutex);
    if (closed) return nullptr;
    if (!any) any = std::make_shared<AnyDevices>();
    return any;
  }
  /// A device has one task at a time, unless there are more tasks than any_devices_max.
  [[nodiscard]] DeviceOptions options_of_any(std::size_t number) const {
    DeviceOptions of;
    of.name = fmt::format("{}/any {}", options.name, number);
    of.mode = options.device.mode == Mode::threaded ? Mode::pooled : options.device.mode;
    of.queue_size = tuning::any_queue_size;
    of.full = options.device.full;
    of.record_sites = options.device.record_sites;
    of.drain_max = options.device.drain_max;
    return of;
  }
  /// Threads and lock owners do not exist in a forked child: the scheduler does no work there.
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
  /// The pool of manual devices; null without manual devices, unless `make` creates the pool for
  /// later ones.
  [[nodiscard]] std::shared_ptr<Pool> host_pool(bool make = false) {
    if (forked()) return nullptr;
    const std::lock_guard lock(mutex);
    if (make && simulator == nullptr) static_cast<void>(runner(Mode::manual));
    return manual;
  }
  std::unique_ptr<Watchdog> watchdog;  // set by the first device to watch

  /// `resting`: include idle devices of submit_any().
  std::vector<std::shared_ptr<DeviceCore>> live(bool resting) {
    if (forked()) return {};
    std::vector<std::shared_ptr<DeviceCore>> result, left_out;  // released without the lock
    const std::lock_guard lock(mutex);
    for (const auto& opened : devices) {
      auto core = opened.core.lock();
      if (!core) continue;
      const bool rests = opened.any && !resting && core->is_idle();
      (rests ? left_out : result).push_back(std::move(core));
    }
    return result;
  }
  [[nodiscard]] std::vector<Snapshot> snapshot() {
    std::vector<Snapshot> result;
    for (const auto& device : live(false)) result.push_back(device->snapshot());
    return result;
  }
};

}  // namespace heddle::sched

namespace heddle {

namespace {

void check_width(const SchedulerOptions& options) {
  if (!options.width) return;
  const bool any = options.oversubscribed;
  const unsigned most = any ? sched::width_max : std::min(available_processors(), sched::width_max);
  if (*options.width >= 1 && *options.width <= most) return;
  throw Error(
      ErrorCode::invalid_argument,
      fmt::format("scheduler '{}': width is {} (expected 1 to {} threads for the parts of a "
                  "task{}; unset, as many as there are)",
                  options.name, *options.width, most,
                  any ? "" : ", as many as this process may use"));
}

}  // namespace

Scheduler::Scheduler(SchedulerOptions options) : Scheduler(std::move(options), nullptr) {}

Scheduler::Scheduler(SchedulerOptions options, std::shared_ptr<sched::Runner> simulator) {
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
  check_width(options);
  throw_if_failed(sched::read_log_level());
  const auto core = std::make_shared<sched::SchedulerCore>();
  core->options = std::move(options);
  core->simulator = std::move(simulator);
  // The watchdog owns the core during a look; handles of the scheduler own the call that ends the
  // watchdog.
  core_ = {core.get(), [core](sched::SchedulerCore*) { core->watchdog.reset(); }};
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
  return open(std::move(options), false);
}

sched::TaskDevice Scheduler::open(sched::DeviceOptions options, bool any,
                                  std::shared_ptr<sched::Helpers> helpers) {
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
  const auto& own = core_->helpers_of_devices();
  auto runner = core_->runner(options.mode);
  if (helpers && options.mode == sched::Mode::pooled)
    helpers->be_visited(core_->pooled->shared_from_this(), core_->pool_workers);
  sched::TaskDevice device =
      sched::DeviceCore::open(std::move(options), core_->options.profile, std::move(runner),
                              helpers ? std::move(helpers) : own, &made);
  std::erase_if(core_->devices, [](const auto& opened) { return opened.core.expired(); });
  core_->devices.push_back({made, any});
  return device;
}

sched::AnyGrant Scheduler::grant_any(sched::Label label, bool empty) {
  const auto refuse = [](Status why) {
    return sched::AnyGrant{{}, {}, sched::Timeline::refused(std::move(why))};
  };
  if (!core_) return refuse(sched::empty_handle("Scheduler"));
  const auto refuse_task = [&](ErrorCode code, const char* why) {
    return refuse(Status(code, [&] {
      return fmt::format("scheduler '{}' task '{}': {}", core_->options.name, label.c_str(), why);
    }));
  };
  if (Status status = core_->refusal_if_forked(); !status.ok()) return refuse(std::move(status));
  if (empty) {
    return refuse_task(ErrorCode::invalid_argument,
                       "there is nothing to call, but an empty function or a null pointer");
  }
  try {
    const auto any = core_->any_devices();
    if (!any) {
      return refuse_task(ErrorCode::unavailable,
                         "the scheduler is shut down and takes no new tasks; make another");
    }
    if (auto grant = any->take()) return *std::move(grant);
    const std::size_t number = any->size();
    try {
      if (number < sched::tuning::any_devices_max)
        return any->add(open(core_->options_of_any(number), true));
    } catch (const std::exception&) {
      if (number == 0) throw;  // else the task shares a device, and comes after earlier tasks
    }
    return any->share();
  } catch (const Error& error) {
    return refuse(error.status());
  } catch (const std::bad_alloc&) {
    return refuse_task(ErrorCode::exhausted, "no memory for it");
  }
}

bool Scheduler::poll(std::chrono::nanoseconds budget) {
  const auto pool = core().host_pool();
  return pool && pool->poll(sched::deadline_after(budget));
}

bool Scheduler::run_one(std::chrono::nanoseconds budget) {
  // With a budget, a manual device may be opened during the wait.
  const auto pool = core().host_pool(budget > std::chrono::nanoseconds(0));
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
  const auto live = core_->live(true);
  std::vector<sched::DeviceCore*> devices;
  for (const auto& device : live) devices.push_back(device.get());
  return sched::DeviceCore::shutdown(devices, timeout);
}

std::shared_ptr<sched::Helpers> sched::Opening::helpers_of(const Scheduler& scheduler) {
  SchedulerCore& core = scheduler.core();
  throw_if_failed(core.refusal_if_forked());
  const std::lock_guard lock(core.mutex);
  return core.helpers_of_devices();
}

sched::TaskDevice sched::Opening::open(Scheduler& scheduler, DeviceOptions options,
                                       std::shared_ptr<Helpers> helpers) {
  return scheduler.open(std::move(options), false, std::move(helpers));
}

std::vector<sched::Snapshot> Scheduler::snapshot() const { return core().snapshot(); }
bool Scheduler::simulated() const { return core().simulator != nullptr; }

}  // namespace heddle
