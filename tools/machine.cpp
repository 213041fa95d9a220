// See machine.hpp.
#include "tools/machine.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "jit/machine/profile.hpp"
#include "runtime/device/machine.hpp"
#include "runtime/settings/config.hpp"

namespace heddle::tools {

jit::KnownMachine machine_in_use() { return rt::machine_of(rt::with_environment({})); }

std::string machine_text(const jit::KnownMachine& machine) {
  std::string text;
  if (machine.measured) {
    text = fmt::format("  measured   {}\n", machine.file.string());
  } else if (!machine.problem.empty()) {
    text = fmt::format("  usual      {} is not used: {}\n", machine.file.string(), machine.problem);
  } else {
    text = fmt::format("  usual      {}\n", machine.file.empty()
                                                ? "nothing is kept, as there is no kernel cache"
                                                : "heddle tune --machine measures this one");
  }
  for (const jit::MachineValue& each : jit::machine_values) {
    text += fmt::format("  {:<16} {:>9} {:<8}  {}\n", each.name, machine.profile.*each.value,
                        each.unit, each.meaning);
  }
  const KernelProfile kernels = jit::kernels_on(machine.profile);
  const SchedulerProfile scheduling = jit::scheduling_on(machine.profile);
  return text + fmt::format("  so         parts of {} KiB; {} terms, {} lines and {} slots ahead\n",
                            kernels.part_bytes >> 10, kernels.terms_ahead, kernels.lines_ahead,
                            scheduling.slots_ahead);
}

nlohmann::ordered_json machine_json(const jit::KnownMachine& machine) {
  nlohmann::ordered_json row{{"measured", machine.measured},
                             {"file", machine.file.string()},
                             {"problem", machine.problem}};
  for (const jit::MachineValue& each : jit::machine_values)
    row["values"][each.name] = machine.profile.*each.value;
  const KernelProfile kernels = jit::kernels_on(machine.profile);
  row["kernels"] = {
      {"terms_ahead", kernels.terms_ahead},           {"lines_fetched", kernels.lines_fetched},
      {"lines_written", kernels.lines_written},       {"lines_ahead", kernels.lines_ahead},
      {"rows_together", kernels.rows_together},       {"unrolled_steps", kernels.unrolled_steps},
      {"cached_bytes_max", kernels.cached_bytes_max}, {"part_bytes", kernels.part_bytes}};
  const SchedulerProfile scheduling = jit::scheduling_on(machine.profile);
  row["scheduler"] = {{"slots_ahead", scheduling.slots_ahead}};
  return row;
}

}  // namespace heddle::tools
