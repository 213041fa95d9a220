// See runtime/settings/backend_options.hpp.
#include "runtime/settings/backend_options.hpp"

#include <fmt/format.h>

#include <utility>

#include "heddle/status.hpp"
#include "scheduler/threads/team.hpp"

namespace heddle::rt {
namespace {

/// Refuses options without effect.
void check_scheduling(const BackendOptions& options) {
  const SchedulerOptions& asked = options.scheduling;
  if (asked.device.mode != sched::DeviceOptions().mode) {
    throw Error(ErrorCode::invalid_argument,
                "BackendOptions::scheduling.device.mode says nothing of a backend's devices; set "
                "BackendOptions::mode");
  }
  if (asked.width || asked.oversubscribed) {
    throw Error(
        ErrorCode::invalid_argument,
        "BackendOptions::scheduling.width or .oversubscribed is set (expected neither: they say "
        "nothing of kernels; BackendOptions::width does)");
  }
  if (options.mode && *options.mode > sched::Mode::simulated) {
    throw Error(
        ErrorCode::invalid_argument,
        fmt::format("BackendOptions::mode is {}, which is none", static_cast<int>(*options.mode)));
  }
  if (!options.scheduler) {
    if (options.mode != sched::Mode::simulated) return;
    throw Error(ErrorCode::invalid_argument,
                "BackendOptions::mode is simulated, and there is no BackendOptions::scheduler (set "
                "it to that of a Simulation)");
  }
  const bool simulated = options.scheduler->simulated();
  if (options.mode && simulated != (options.mode == sched::Mode::simulated)) {
    throw Error(ErrorCode::invalid_argument,
                simulated ? "BackendOptions::scheduler is a Simulation's, whose devices are "
                            "simulated, and BackendOptions::mode is another (leave it unset)"
                          : "BackendOptions::mode is simulated, and BackendOptions::scheduler is "
                            "no Simulation's");
  }
  const std::pair<const char*, bool> of_schedulers[] = {
      {"workers", asked.workers.has_value()},
      {"pin_workers", asked.pin_workers},
      {"watchdog", asked.watchdog.has_value()},
      {"on_overdue", asked.on_overdue != nullptr},
      {"profile", asked.profile != SchedulerProfile()}};
  for (const auto& [name, set] : of_schedulers) {
    if (!set) continue;
    throw Error(ErrorCode::invalid_argument,
                fmt::format("BackendOptions::scheduling.{} is of a scheduler that the backend "
                            "makes, and BackendOptions::scheduler is the host's own (give it to "
                            "that one when it is made)",
                            name));
  }
}

}  // namespace

void check(const BackendOptions& options) {
  check_scheduling(options);
  if (const auto queue_size = options.scheduling.device.queue_size;
      queue_size && (*queue_size == 0 || *queue_size > sched::queue_size_max)) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("BackendOptions::scheduling.device.queue_size is {} (expected 1 to {})",
                            *queue_size, sched::queue_size_max));
  }
  if (const auto workers = options.scheduling.workers;
      workers && (*workers == 0 || *workers > sched::workers_max)) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("BackendOptions::scheduling.workers is {} (expected 1 to {})", *workers,
                            sched::workers_max));
  }
  const SchedulerOptions& asked = options.scheduling;
  for (const auto& [name, spin] : {std::pair("device.spin", asked.device.spin),
                                   std::pair("profile.spin", std::optional(asked.profile.spin))}) {
    if (!spin || spin->count() >= 0) continue;
    throw Error(ErrorCode::invalid_argument,
                fmt::format("BackendOptions::scheduling.{} is {} ns (expected 0 or more)", name,
                            spin->count()));
  }
  const unsigned there = options.oversubscribed ? sched::width_max : available_processors();
  const int processors = static_cast<int>(std::min(there, sched::width_max));
  if (options.width && *options.width != width_all && *options.width != width_automatic &&
      (*options.width < 1 || *options.width > processors)) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("BackendOptions::width is {} (expected 1 to {}, width_all or "
                            "width_automatic)",
                            *options.width, processors));
  }
  if (options.sync && *options.sync > Sync::check) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("BackendOptions::sync is {} (expected a value of Sync)",
                            static_cast<int>(*options.sync)));
  }
  if (options.tune && *options.tune > Tune::measure) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("BackendOptions::tune is {} (expected a value of Tune)",
                            static_cast<int>(*options.tune)));
  }
  if (options.bytes_max == std::uint64_t{0}) {
    throw Error(ErrorCode::invalid_argument,
                "BackendOptions::bytes_max is 0 (expected 1 or more; unset, the machine bounds "
                "its devices)");
  }
  if (options.virtual_devices &&
      (*options.virtual_devices < 1 || *options.virtual_devices > virtual_devices_max)) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("BackendOptions::virtual_devices is {} (expected 1 to {})",
                            *options.virtual_devices, virtual_devices_max));
  }
  if (options.cache_dir && !options.cache_dir->starts_with('/')) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("BackendOptions::cache_dir is '{}' (expected an absolute path)",
                            *options.cache_dir));
  }
  if (options.compile_timeout && *options.compile_timeout <= std::chrono::milliseconds(0)) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("BackendOptions::compile_timeout is {} ms (expected more than 0)",
                            options.compile_timeout->count()));
  }
}

}  // namespace heddle::rt
