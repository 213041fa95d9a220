// See tune.hpp.
#include "tools/tune.hpp"

#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <utility>

#include "heddle/status.hpp"
#include "jit/machine/probes.hpp"
#include "jit/machine/profile.hpp"
#include "jit/machine/profile_file.hpp"
#include "runtime/settings/config.hpp"
#include "tools/terminal.hpp"

namespace heddle::tools {
namespace {

using MachineJson = nlohmann::ordered_json;

std::string value_line(const jit::MeasuredValue& of, bool colour) {
  const jit::MachineValue& value = *of.value;
  std::string text = fmt::format("  {:<16} ", value.name);
  if (of.absent())
    return text + fmt::format("{:>9}  {}: takes two processors\n", "-", value.meaning);
  if (!std::isfinite(of.middle())) {
    return text + fmt::format("{:>9}  {}: {}\n", "-", value.meaning,
                              paint("the other processor was busy", Colour::bad, colour));
  }
  const std::string spread = fmt::format("{:>4.0f} %", of.spread() * 100);
  return text + fmt::format("{:>9.0f} {:<8} {}  {}\n", of.middle(), value.unit,
                            paint(spread, of.agrees() ? Colour::good : Colour::bad, colour),
                            value.meaning);
}

/// The names of the values whose repetitions do not agree.
std::string disputed(const jit::MeasuredMachine& measured) {
  std::string names;
  for (const jit::MeasuredValue& each : measured.values) {
    if (!each.agrees()) names += fmt::format("{}{}", names.empty() ? "" : ", ", each.value->name);
  }
  return names;
}

MachineJson measured_json(const jit::MeasuredMachine& measured) {
  MachineJson values;
  for (const jit::MeasuredValue& each : measured.values) {
    MachineJson row{{"value", nullptr},
                    {"spread", nullptr},
                    {"repetitions", each.repetitions},
                    {"agrees", each.agrees()}};
    if (!each.absent()) {
      row["value"] = each.middle();
      row["spread"] = each.spread();
    }
    values[each.value->name] = std::move(row);
  }
  return values;
}

}  // namespace

TuneReport tune_machine(bool json, bool colour) {
  const auto cache = rt::kernel_cache_options(rt::with_environment({}));
  if (cache.directory.empty()) {
    throw Error(ErrorCode::failed_precondition,
                fmt::format("there is no folder to keep a machine profile in: {}", cache.absence));
  }
  const auto begin = std::chrono::steady_clock::now();
  jit::MachineProbes probes(jit::native_target());
  const jit::MeasuredMachine measured = jit::measure_machine(
      [&probes](const jit::MachineValue& value) { return probes(value); },
      [begin] { return std::chrono::nanoseconds(std::chrono::steady_clock::now() - begin); });
  return keep_if_it_agrees(measured, cache.directory, json, colour);
}

TuneReport keep_if_it_agrees(const jit::MeasuredMachine& measured,
                             const std::filesystem::path& folder, bool json, bool colour) {
  TuneReport report{{}, measured.agrees()};
  std::optional<std::filesystem::path> file;
  if (report.ok) {
    const MachineProfile usual = jit::usual_profile(jit::native_target().isa);
    file = jit::keep_machine(folder, measured.profile(usual));
  }
  if (json) {
    const MachineJson row{{"kept", report.ok},
                          {"file", file ? MachineJson(file->string()) : MachineJson()},
                          {"values", measured_json(measured)}};
    report.text = row.dump(2, ' ', false, MachineJson::error_handler_t::replace) + "\n";
    return report;
  }
  for (const jit::MeasuredValue& each : measured.values) report.text += value_line(each, colour);
  report.text +=
      report.ok ? fmt::format("kept in {}\n", file->string())
                : fmt::format(
                      "not kept: repetitions of {} are more than {:.0f} % apart; measure again "
                      "when nothing else runs\n",
                      disputed(measured), jit::spread_max * 100);
  return report;
}

}  // namespace heddle::tools
