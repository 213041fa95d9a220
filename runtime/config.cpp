// Reading HEDDLE_ variables, with one table of what exists.
#include "runtime/config.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdlib>
#include <mutex>
#include <sstream>

#include "heddle/observe.hpp"
#include "heddle/status.hpp"
#include "jit/vector/target.hpp"
#include "scheduler/observe/log.hpp"

extern char** environ;  // NOLINT: POSIX

namespace heddle {
namespace {

struct Variable {
  const char* name;
  const char* fallback;
  const char* meaning;
};

constexpr Variable variables[] = {
    {"HEDDLE_BACKEND", "gccjit, else cc", "backend that Backend::open() opens"},
    {"HEDDLE_LOG", "warn", "off, error, warn, info, debug or trace, to stderr"},
    {"HEDDLE_CC", "cc", "C compiler of the cc backends"},
    {"HEDDLE_CFLAGS", "", "flags added to heddle's own, separated by blanks"},
    {"HEDDLE_ISA", "the processor's", "portable, avx2 or avx512: the most that kernels may use"},
    {"HEDDLE_COMPILE_HELPER", "", "path of heddle-compile, searched beside the library otherwise"},
    {"HEDDLE_COMPILE_TIMEOUT", "60", "seconds that one compile may take"},
    {"HEDDLE_TEMP_DIR", "TMPDIR, else /tmp", "where compilers work"},
    {"HEDDLE_DUMP_DIR", "", "keeps text and library of every compile here, for perf and gdb too"},
    {"HEDDLE_PERF_MAP", "off", "on: names of kernels go to /tmp/perf-PID.map, for perf and gdb"},
    {"HEDDLE_CACHE", "on", "off: compiled kernels are not kept on disk"},
    {"HEDDLE_CACHE_DIR", "~/.cache/heddle", "where they are kept; must be this user's alone"},
    {"HEDDLE_CACHE_BYTES_MAX", "268435456", "bytes kept; what was not used for longest goes first"},
    {"HEDDLE_VIRTUAL_DEVICES", "by strategy", "suggested virtual devices per physical device"},
    {"HEDDLE_BYTES_MAX", "", "bytes of memory that each virtual device may take"},
    {"HEDDLE_QUEUE_SIZE", "4096", "tasks outstanding per device"},
    {"HEDDLE_SPIN_NS", "50000", "nanoseconds an idle worker spins before it sleeps"},
};

/// Set and not empty.
std::optional<std::string> get(const char* name) {
  const char* const value = std::getenv(name);
  if (value == nullptr || *value == '\0') return std::nullopt;
  return std::string(value);
}

/// A word that means the same in any case.
std::optional<std::string> get_word(const char* name) {
  auto text = get(name);
  if (text) *text = rt::lower(*text);
  return text;
}

[[noreturn]] void refuse(const char* name, const std::string& value, std::string_view expected) {
  throw Error(ErrorCode::invalid_argument, fmt::format("environment variable {}='{}' (expected {})",
                                                       name, value.substr(0, 200), expected));
}

template <class T>
std::optional<T> number(const char* name, T lowest, T highest) {
  const auto text = get(name);
  if (!text) return std::nullopt;
  T value{};
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), value);
  if (error != std::errc() || end != text->data() + text->size() || value < lowest ||
      value > highest) {
    refuse(name, *text, fmt::format("a number from {} to {}", lowest, highest));
  }
  return value;
}

std::optional<bool> on_or_off(const char* name) {
  const auto text = get_word(name);
  if (!text) return std::nullopt;
  if (*text != "on" && *text != "off") refuse(name, *text, "on or off");
  return *text == "on";
}

/// By the XDG Base Directory Specification; nothing for a user without a home.
std::optional<std::string> user_cache_dir() {
  const auto absolute = [](const char* name) {
    auto path = get(name);
    return path && path->starts_with('/') ? path : std::nullopt;
  };
  if (const auto cache = absolute("XDG_CACHE_HOME")) return *cache + "/heddle";
  if (const auto home = absolute("HOME")) return *home + "/.cache/heddle";
  return std::nullopt;
}

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t change = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, change});
    }
  }
  return row[b.size()];
}

/// A misspelt variable is silently without effect: say so once.
void warn_of_unknown() {
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const std::string_view name = text.substr(0, text.find('='));
    if (!name.starts_with("HEDDLE_") ||
        std::ranges::find(variables, name, &Variable::name) != std::end(variables))
      continue;
    const auto nearest = std::ranges::min(
        variables, {}, [&](const Variable& v) { return edit_distance(name, v.name); });
    log(LogLevel::warn, fmt::format("environment variable {} is none of heddle's; did you mean {}?",
                                    name, nearest.name));
  }
}

}  // namespace

Status log_level_from_environment(LogLevel& level) noexcept {
  try {
    const auto text = get_word("HEDDLE_LOG");
    if (!text) return {};
    constexpr std::string_view names[] = {"off", "error", "warn", "info", "debug", "trace"};
    const auto* const at = std::ranges::find(names, *text);
    if (at == std::end(names))
      refuse("HEDDLE_LOG", *text, "off, error, warn, info, debug or trace");
    level = static_cast<LogLevel>(at - std::begin(names));
    return {};
  } catch (const Error& e) {
    return e.status();
  } catch (const std::bad_alloc&) {
    return Status(ErrorCode::exhausted, "no memory to read the environment variable HEDDLE_LOG");
  }
}

namespace rt {

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return result;
}

std::string default_temp_dir() {
  return get("HEDDLE_TEMP_DIR").value_or(get("TMPDIR").value_or("/tmp"));
}

BackendOptions with_environment(BackendOptions options) {
  static std::once_flag once;
  throw_if_failed(sched::read_log_level());
  std::call_once(once, warn_of_unknown);
  if (options.name.empty()) options.name = get("HEDDLE_BACKEND").value_or("");
  if (!options.virtual_devices)
    options.virtual_devices = number<int>("HEDDLE_VIRTUAL_DEVICES", 1, 4096);
  sched::DeviceOptions& device = options.scheduler.device;
  if (!device.capacity)
    device.capacity = number<std::uint32_t>("HEDDLE_QUEUE_SIZE", 1, sched::capacity_max);
  if (!device.spin) {
    if (const auto ns = number<std::int64_t>("HEDDLE_SPIN_NS", 0, 1'000'000'000))
      device.spin = std::chrono::nanoseconds(*ns);
  }
  if (!options.bytes_max)
    options.bytes_max = number<std::uint64_t>("HEDDLE_BYTES_MAX", 1, ~std::uint64_t{0});
  if (!options.cc) options.cc = get("HEDDLE_CC");
  if (!options.cflags) {
    if (const auto text = get("HEDDLE_CFLAGS")) {
      std::istringstream words(*text);
      options.cflags.emplace();
      for (std::string word; words >> word;) options.cflags->push_back(word);
    }
  }
  if (options.isa) {
    options.isa = lower(*options.isa);
  } else if ((options.isa = get_word("HEDDLE_ISA"))) {
    static_cast<void>(jit::narrowed_target(*options.isa));  // malformed ones are told wherever
  }
  if (!options.compile_helper) options.compile_helper = get("HEDDLE_COMPILE_HELPER");
  if (!options.compile_timeout) {
    if (const auto s = number<int>("HEDDLE_COMPILE_TIMEOUT", 1, 86'400))
      options.compile_timeout = std::chrono::seconds(*s);
  }
  if (!options.temp_dir) options.temp_dir = default_temp_dir();
  if (!options.dump_dir) options.dump_dir = get("HEDDLE_DUMP_DIR");
  if (!options.perf_map) options.perf_map = on_or_off("HEDDLE_PERF_MAP").value_or(false);
  if (!options.cache) options.cache = on_or_off("HEDDLE_CACHE").value_or(true);
  if (!options.cache_dir) {
    options.cache_dir = get("HEDDLE_CACHE_DIR");
    if (!options.cache_dir) options.cache_dir = user_cache_dir();
  }
  if (!options.cache_bytes_max)
    options.cache_bytes_max = number<std::uint64_t>("HEDDLE_CACHE_BYTES_MAX", 0, ~std::uint64_t{0});
  return options;
}

jit::KernelCache::Options kernel_cache_options(const BackendOptions& options) {
  jit::KernelCache::Options cache;
  if (options.cache.value_or(false)) cache.directory = options.cache_dir.value_or("");
  if (options.cache_bytes_max) cache.bytes_max = *options.cache_bytes_max;
  cache.warn = [](const std::string& line) { log(LogLevel::warn, line); };
  return cache;
}

}  // namespace rt

KernelCacheInfo kernel_cache_info() {
  return jit::KernelCache(rt::kernel_cache_options(rt::with_environment({}))).info();
}

std::vector<Setting> settings() {
  static_cast<void>(rt::with_environment({}));  // throws on malformed values
  std::vector<Setting> result;
  for (const Variable& v : variables) {
    const auto value = get(v.name);
    result.push_back(
        {v.name, value.value_or(v.fallback), value ? "environment" : "default", v.meaning});
  }
  return result;
}

}  // namespace heddle
