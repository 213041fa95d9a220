// See runtime/device/machine.hpp.
#include "runtime/device/machine.hpp"

#include <fmt/format.h>

#include "heddle/observe.hpp"
#include "jit/machine/profile.hpp"
#include "runtime/settings/config.hpp"

namespace heddle::rt {

jit::KnownMachine machine_of(const BackendOptions& options) {
  if (options.machine) return {*options.machine, {}, false, {}};
  return jit::known_machine(kernel_cache_options(options).directory);
}

void take_machine(BackendOptions& options) {
  if (options.machine) jit::check(*options.machine);
  const jit::KnownMachine known = machine_of(options);
  if (!known.problem.empty()) {
    log(LogLevel::warn,
        fmt::format("machine profile '{}' is not used: {}; the usual values are taken (heddle tune "
                    "--machine measures them)",
                    known.file.string(), known.problem));
  }
  options.machine = known.profile;
  // A scheduler of the host has options of its own.
  if (!options.scheduler && options.scheduling.profile == SchedulerProfile())
    options.scheduling.profile = jit::scheduling_on(known.profile);
}

}  // namespace heddle::rt
