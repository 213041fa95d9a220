// See runtime/device/widths.hpp.
#include "runtime/device/widths.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>

#include "runtime/device/backend_state.hpp"
#include "runtime/device/execution.hpp"
#include "scheduler/device/helpers.hpp"
#include "scheduler/modes/opening.hpp"
#include "scheduler/threads/processors.hpp"

namespace heddle::rt {
namespace {

sched::Mode mode_of(const BackendState& backend) {
  if (backend.scheduler.simulated()) return sched::Mode::simulated;
  return backend.options.mode.value_or(backend.spec.mode);
}

/// True if the host's own thread runs all parts of a kernel.
bool host_runs(const BackendState& backend) {
  const sched::Mode mode = mode_of(backend);
  return mode == sched::Mode::manual || mode == sched::Mode::simulated;
}

/// Makes devices of `width` processors each, as many as the processors allow.
void give_width(BackendState& backend, std::uint32_t width) {
  const auto all = static_cast<std::uint32_t>(backend.physical.size());
  backend.width = static_cast<int>(width);
  backend.physical.resize((all + width - 1) / width);
}

/// Creates the helpers of every physical device: a crew's threads, or a pool's workers.
void give_helpers(BackendState& backend, std::uint32_t width) {
  const SchedulerOptions& scheduling = backend.options.scheduling;
  for (std::uint32_t k = 0; k < backend.physical.size(); ++k) {
    sched::HelpersOptions each{.name = fmt::format("{}:{}", backend.spec.name, k), .width = width};
    each.spin = scheduling.device.spin.value_or(scheduling.profile.spin);
    each.pinned = scheduling.pin_workers;
    each.first_processor = k * width + 1;
    backend.helpers.push_back(std::make_shared<sched::Helpers>(std::move(each)));
  }
}

/// Devices have one thread each, and lend idle processors to each other.
void lend_processors(BackendState& backend) {
  const SchedulerOptions& scheduling = backend.options.scheduling;
  const auto all = static_cast<std::uint32_t>(backend.physical.size());
  backend.width = width_automatic;
  backend.teams = std::make_shared<Teams>(
      TeamsOptions{backend.spec.name, all, scheduling.pin_workers,
                   scheduling.device.spin.value_or(scheduling.profile.spin)});
  for (std::uint32_t k = 0; k < all; ++k)
    backend.helpers.push_back(Teams::helpers_of(backend.teams, k));
}

std::uint32_t width_of(const Scheduler& scheduler) {
  const auto helpers = sched::Opening::helpers_of(scheduler);
  helpers->prepare();
  return helpers->width();
}

void share_by_themselves(BackendState& backend) {
  if (backend.options.scheduler) {
    const bool alone = mode_of(backend) == sched::Mode::manual || width_of(backend.scheduler) == 1;
    backend.width = alone ? 1 : width_automatic;
    return;
  }
  const auto all = static_cast<std::uint32_t>(backend.physical.size());
  if (mode_of(backend) == sched::Mode::threaded && all > 1) return lend_processors(backend);
  if (mode_of(backend) != sched::Mode::pooled) return;
  const unsigned workers = backend.options.scheduling.workers.value_or(available_processors());
  if (workers == 1) return;
  backend.width = width_automatic;
  give_helpers(backend, std::min(workers, sched::width_max));
}

}  // namespace

void share_processors(BackendState& backend, bool asked) {
  const bool in_parts = std::ranges::all_of(
      backend.physical, [](const auto& device) { return device->properties().parts_at_once; });
  if (!in_parts) return;
  // HEDDLE_WIDTH is ignored for manual devices and with a given scheduler, where the host chooses
  // the threads, and in a simulation, which must not depend on the machine.
  const bool takes_environment = !backend.options.scheduler && !host_runs(backend);
  const int wanted = asked || takes_environment ? backend.options.width.value_or(width_automatic)
                                                : width_automatic;
  if (wanted == width_automatic) return share_by_themselves(backend);
  if (wanted == 1) return;
  const std::uint32_t width =
      std::min(wanted == width_all ? static_cast<std::uint32_t>(backend.physical.size())
                                   : static_cast<std::uint32_t>(wanted),
               sched::width_max);
  if (backend.options.scheduler && !host_runs(backend)) {
    if (const std::uint32_t own = width_of(backend.scheduler); width != own) {
      throw Error(
          ErrorCode::invalid_argument,
          fmt::format("BackendOptions::width is {}, and BackendOptions::scheduler runs parts on up "
                      "to {} threads (leave it unset, and set SchedulerOptions::width there)",
                      wanted, own));
    }
    return give_width(backend, width);
  }
  give_width(backend, width);
  if (width > 1) give_helpers(backend, width);
}

void take_helpers(BackendState& backend, int ordinal, Execution& execution) {
  if (backend.width == 1) return;
  execution.helpers = backend.helpers.empty() ? sched::Opening::helpers_of(backend.scheduler)
                                              : backend.helpers[static_cast<std::size_t>(ordinal)];
  execution.helpers->prepare();
  execution.width = execution.helpers->width();
  execution.starts_helpers = !host_runs(backend);
}

}  // namespace heddle::rt
