// See cache.hpp.
#include "tools/cache.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <nlohmann/json.hpp>
#include <vector>

#include "heddle/status.hpp"
#include "jit/cache/kernel_cache.hpp"
#include "jit/tune/tuned_file.hpp"
#include "runtime/settings/config.hpp"
#include "tools/terminal.hpp"

namespace heddle::tools {
namespace {

using jit::CacheFile;
using jit::KernelCache;
using Json = nlohmann::ordered_json;

std::string time_text(std::int64_t ns) {
  const auto seconds = static_cast<std::time_t>(ns / 1'000'000'000);
  std::tm local{};
  localtime_r(&seconds, &local);
  return fmt::format("{:%Y-%m-%d %H:%M:%S}", local);
}

/// Bytes of a damaged file may not be valid text.
std::string dumped(const Json& json) {
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

Json file_json(const CacheFile& file) {
  Json row{{"key", file.name},
           {"bytes", file.bytes},
           {"used", static_cast<double>(file.used_ns) / 1e9},
           {"unit", file.info}};
  if (!file.problem.empty()) row["problem"] = file.problem;
  return row;
}

std::string file_line(const CacheFile& file, bool colour) {
  return fmt::format(
      "  {}  {:>10}  {}  {}\n", file.name.substr(0, 16), bytes_text(file.bytes),
      time_text(file.used_ns),
      file.problem.empty() ? file.info : paint("damaged: " + file.problem, Colour::bad, colour));
}

std::string files_text(const std::vector<CacheFile>& files, bool colour) {
  std::string text;
  for (const CacheFile& file : files) text += file_line(file, colour);
  return text;
}

Json files_json(const std::vector<CacheFile>& files) {
  Json rows = Json::array();
  for (const CacheFile& file : files) rows.push_back(file_json(file));
  return rows;
}

CacheReport freed_report(const KernelCache::Freed& freed, const std::string& directory, bool json,
                         std::size_t tuned = 0) {
  CacheReport report;
  report.ok = freed.kept == 0;
  if (json) {
    Json row{{"directory", directory},
             {"removed", freed.entries},
             {"bytes", freed.bytes},
             {"tuned", tuned}};
    if (!report.ok) row.update(Json{{"kept", freed.kept}, {"problem", freed.problem}});
    report.text = dumped(row);
    return report;
  }
  report.text = fmt::format("{}: removed {} entries, {}\n", directory, freed.entries,
                            bytes_text(freed.bytes));
  if (tuned > 0) report.text += fmt::format("  and what was tuned, for {} programs\n", tuned);
  if (!report.ok) {
    report.text += fmt::format("  {} could not be removed, first {}\n", freed.kept, freed.problem);
  }
  return report;
}

}  // namespace

std::string bytes_text(std::uint64_t bytes) {
  constexpr const char* units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  auto value = static_cast<double>(bytes);
  std::size_t unit = 0;
  for (; value >= 1024 && unit + 1 < std::size(units); ++unit) value /= 1024;
  return unit == 0 ? fmt::format("{} B", bytes) : fmt::format("{:.1f} {}", value, units[unit]);
}

std::string kernel_cache_text(const KernelCacheInfo& info) {
  std::string text =
      fmt::format("  directory  {}\n", info.directory.empty() ? "none" : info.directory);
  if (!info.refusal.empty()) return text + fmt::format("  not used   {}\n", info.refusal);
  text += fmt::format("  holds      {} entries, {} of {}\n", info.entries, bytes_text(info.bytes),
                      bytes_text(info.bytes_max));
  std::string counted;
  for (const auto& [name, value] : kernel_cache_counters) {
    if (info.counters.*value == 0) continue;
    counted += fmt::format("{}{} {}", counted.empty() ? "" : ", ", name, info.counters.*value);
  }
  return text + fmt::format("  so far     {}\n", counted.empty() ? "nothing" : counted);
}

CacheReport run_cache_action(CacheAction action, const std::uint64_t* bytes_max, bool json,
                             bool colour) {
  const KernelCache::Options options = rt::kernel_cache_options(rt::with_environment({}));
  const std::string directory = options.directory.string();
  if (directory.empty()) {
    throw Error(ErrorCode::failed_precondition,
                fmt::format("there is no kernel cache: {}", options.absence));
  }
  KernelCache cache(options);
  if (action == CacheAction::prune)
    return freed_report(cache.prune(bytes_max != nullptr ? *bytes_max : options.bytes_max),
                        directory, json);
  if (action == CacheAction::clear) {
    const KernelCache::Freed freed = cache.clear();
    return freed_report(freed, directory, json, jit::forget_tuned(options.directory));
  }
  if (action == CacheAction::verify) {
    const std::vector<CacheFile> damaged = cache.remove_damaged();
    const std::vector<CacheFile> left = cache.list();
    const auto sound = static_cast<std::size_t>(
        std::ranges::count_if(left, [](const CacheFile& file) { return file.problem.empty(); }));
    const std::size_t kept = left.size() - sound;
    if (json) {
      return {dumped({{"directory", directory},
                      {"sound", sound},
                      {"removed", files_json(damaged)},
                      {"kept", kept}}),
              damaged.empty()};
    }
    return {files_text(damaged, colour) +
                fmt::format("{}: {} entries are sound, {} were damaged, {} of them could not be "
                            "removed\n",
                            directory, sound, damaged.size(), kept),
            damaged.empty()};
  }
  const std::vector<CacheFile> files = cache.list();
  std::uint64_t bytes = 0;
  for (const CacheFile& file : files) bytes += file.bytes;
  if (json) {
    return {dumped({{"directory", directory},
                    {"bytes", bytes},
                    {"bytes_max", options.bytes_max},
                    {"entries", files_json(files)}})};
  }
  return {fmt::format("{}: {} entries, {} of {}\n", directory, files.size(), bytes_text(bytes),
                      bytes_text(options.bytes_max)) +
          files_text(files, colour)};
}

}  // namespace heddle::tools
