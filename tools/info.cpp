// See info.hpp.
#include "tools/info.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string_view>

#include "files/ascii.hpp"
#include "heddle/scheduler.hpp"
#include "heddle/status.hpp"
#include "tools/cache.hpp"
#include "tools/machine.hpp"
#include "tools/terminal.hpp"

namespace heddle::tools {
namespace {

/// The first line "key : value" of /proc/cpuinfo.
std::string cpuinfo(std::string_view key) {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const auto colon = line.find(':');
    if (!line.starts_with(key) || colon == std::string::npos) continue;
    const auto from = line.find_first_not_of(" \t", colon + 1);
    return from == std::string::npos ? std::string() : line.substr(from);
  }
  return {};
}

std::vector<std::string> cpu_features() {
  constexpr std::array telling{"sse4_2",      "avx",         "f16c",     "fma",
                               "avx2",        "avx512f",     "avx512bw", "avx512vl",
                               "avx512_bf16", "avx512_fp16", "amx_tile", "asimd",
                               "asimdhp",     "sve",         "sve2",     "bf16"};
  const std::string flags = cpuinfo("flags");
  files::WordStream words(flags.empty() ? cpuinfo("Features") : flags);
  std::vector<std::string> features;
  for (std::string word; words >> word;) {
    if (std::ranges::find(telling, word) != telling.end()) features.push_back(word);
  }
  return features;
}

std::vector<std::string> device_names(const Backend& backend) {
  std::vector<std::string> names;
  for (int k = 0; k < backend.num_physical_devices(); ++k) {
    names.push_back(backend.physical_device(k).name());
  }
  return names;
}

std::size_t widest(const std::vector<Setting>& settings, std::string Setting::* column) {
  std::size_t width = 0;
  for (const Setting& setting : settings) width = std::max(width, (setting.*column).size());
  return width;
}

/// "gccjit:0, gccjit:1, ..., gccjit:63": at most a line.
std::string listed(const std::vector<std::string>& names) {
  constexpr std::size_t shown_max = 4;
  if (names.size() <= shown_max) return fmt::format("{}", fmt::join(names, ", "));
  return fmt::format("{}, {}, ..., {}", names[0], names[1], names.back());
}

std::string processors(std::string_view backend, int width) {
  if (backend == "cuda") return "a GPU each";
  if (width == width_automatic) return "a processor each, and those that are free";
  return width == 1 ? "a processor each" : fmt::format("{} processors each", width);
}

/// Includes the error of opening, for example that its devices are unavailable.
BackendFacts opened(BackendFacts backend) {
  if (!backend.info.status.ok()) return backend;
  try {
    const Backend opened = Backend::open(backend.info.name);
    backend.devices = device_names(opened);
    backend.width = opened.width();
  } catch (const Error& error) {
    backend.info.status = error.status();
  }
  return backend;
}

}  // namespace

Facts gather_facts() {
  Facts facts;
  facts.version = HEDDLE_VERSION;
  facts.cpu = cpuinfo("model name");
  facts.features = cpu_features();
  facts.processors = available_processors();
  facts.settings = settings();
  facts.cache = kernel_cache_info();
  facts.machine = machine_in_use();
  for (const BackendInfo& info : Backend::list()) {
    BackendFacts backend{info};
    facts.backends.push_back(opened(std::move(backend)));
  }
  try {
    facts.default_backend = Backend::open().name();
  } catch (const Error& error) {
    facts.default_refusal = error.status().message();
  }
  return facts;
}

std::string facts_text(const Facts& facts, bool colour) {
  const auto heading = [colour](std::string_view text) {
    return paint(text, Colour::strong, colour) + "\n";
  };
  std::string text = heading(fmt::format("heddle {}", facts.version));
  text += fmt::format("  processor  {}{}{} available here\n", facts.cpu,
                      facts.cpu.empty() ? "" : "; ", facts.processors);
  text += fmt::format("  features   {}\n", fmt::join(facts.features, " "));
  text += facts.default_refusal.empty()
              ? fmt::format("  default    {}\n", facts.default_backend)
              : fmt::format("  default    none: {}\n", facts.default_refusal);

  text += "\n" + heading("Backends");
  for (const auto& [info, devices, width] : facts.backends) {
    const bool ok = info.status.ok();
    text += fmt::format("  {} {:<13} {}\n",
                        paint(ok ? "\u2713" : "\u2717", ok ? Colour::good : Colour::bad, colour),
                        info.name, ok ? info.compiler : std::string(info.status.message()));
    if (ok)
      text += fmt::format("    {:<13} {}: {}\n", "", listed(devices), processors(info.name, width));
  }
  text += "\n" + heading("Kernel cache") + kernel_cache_text(facts.cache);
  text += "\n" + heading("Machine") + machine_text(facts.machine);
  text += "\n" + heading("Settings");
  return text + settings_text(facts.settings, colour);
}

std::string facts_json(const Facts& facts) {
  nlohmann::ordered_json json;
  json["version"] = facts.version;
  json["cpu"] = {
      {"model", facts.cpu}, {"features", facts.features}, {"processors", facts.processors}};
  json["default_backend"] = facts.default_backend.empty()
                                ? nlohmann::ordered_json(nullptr)
                                : nlohmann::ordered_json(facts.default_backend);
  json["backends"] = nlohmann::ordered_json::array();
  for (const auto& [info, devices, width] : facts.backends) {
    nlohmann::ordered_json row{{"name", info.name},
                               {"available", info.status.ok()},
                               {"compiler", info.compiler},
                               {"devices", devices},
                               {"processors", processors(info.name, width)}};
    if (!info.status.ok()) row["reason"] = info.status.to_string();
    json["backends"].push_back(std::move(row));
  }
  nlohmann::ordered_json counters;
  for (const auto& [name, value] : kernel_cache_counters)
    counters[name] = facts.cache.counters.*value;
  json["cache"] = {{"directory", facts.cache.directory}, {"refusal", facts.cache.refusal},
                   {"entries", facts.cache.entries},     {"bytes", facts.cache.bytes},
                   {"bytes_max", facts.cache.bytes_max}, {"counters", std::move(counters)}};
  json["machine"] = machine_json(facts.machine);
  json["settings"] = nlohmann::ordered_json::array();
  for (const Setting& setting : facts.settings) {
    json["settings"].push_back({{"name", setting.name},
                                {"value", setting.value},
                                {"source", setting.source},
                                {"meaning", setting.meaning}});
  }
  // Values come from the environment: bytes that are not UTF-8 must not stop the report.
  return json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

std::string settings_text(const std::vector<Setting>& settings, bool colour) {
  const std::size_t name_width = widest(settings, &Setting::name);
  const std::size_t value_width = std::min<std::size_t>(widest(settings, &Setting::value), 32);
  std::string text;
  for (const Setting& setting : settings) {
    const bool set = setting.source != "default";
    const std::string value = setting.value.empty() ? "-" : setting.value;
    const std::string padded = fmt::format("{:<{}}", value, value_width);
    text +=
        fmt::format("  {:<{}}  {}  {:<11}  {}\n", setting.name, name_width,
                    paint(padded, Colour::strong, colour && set), setting.source, setting.meaning);
  }
  return text;
}

}  // namespace heddle::tools
