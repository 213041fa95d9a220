// Reads the HEDDLE_ variables; one table lists them.
#include "runtime/settings/config.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <iterator>
#include <mutex>

#include "files/ascii.hpp"
#include "heddle/observe.hpp"
#include "heddle/status.hpp"
#include "jit/vector/target.hpp"
#include "runtime/settings/environment.hpp"
#include "scheduler/observe/log.hpp"

extern char** environ;  // NOLINT: POSIX

namespace heddle {
namespace {

using rt::get;
using rt::user_cache_dir;

/// A word in lower case, for variables whose case does not matter.
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

/// Copies a variable to its option, if the option is not set.
using Take = void (*)(const char* name, BackendOptions& options);

template <auto option, auto read>
void take(const char* name, BackendOptions& options) {
  if (!(options.*option)) options.*option = read(name);
}

template <class T, T lowest, T highest>
std::optional<T> number_between(const char* name) {
  return number<T>(name, lowest, highest);
}

template <class Unit, std::int64_t lowest, std::int64_t highest>
std::optional<Unit> time_between(const char* name) {
  const auto count = number<std::int64_t>(name, lowest, highest);
  return count ? std::optional(Unit(*count)) : std::nullopt;
}

template <bool fallback>
std::optional<bool> switched(const char* name) {
  return on_or_off(name).value_or(fallback);
}

std::optional<std::vector<std::string>> words(const char* name) {
  const auto text = get(name);
  if (!text) return std::nullopt;
  files::WordStream in(*text);
  return std::vector<std::string>(std::istream_iterator<std::string>(in), {});
}

std::optional<std::string> cache_dir(const char* name) {
  auto path = get(name);
  if (!path) return user_cache_dir().path;
  // Kernels are loaded from the directory, so it must not depend on the current directory.
  if (!path->starts_with('/')) refuse(name, *path, "an absolute path");
  return path;
}

std::optional<std::string> temp_dir(const char* /*name*/) { return rt::default_temp_dir(); }

void take_backend(const char* name, BackendOptions& options) {
  if (options.name.empty()) options.name = get(name).value_or("");
}

void take_isa(const char* name, BackendOptions& options) {
  const bool asked = options.isa.has_value();
  options.isa = asked ? rt::lower(*options.isa) : get_word(name);
  // Backend::open() checks the option; a bad variable is an error everywhere.
  if (!asked && options.isa) static_cast<void>(jit::narrowed_target(*options.isa));
}

void take_queue_size(const char* name, BackendOptions& options) {
  auto& queue_size = options.scheduling.device.queue_size;
  if (!queue_size) queue_size = number<std::uint32_t>(name, 1, sched::queue_size_max);
}

void take_sync(const char* name, BackendOptions& options) {
  const auto text = get_word(name);
  if (!text || options.sync) return;
  for (const Sync sync : {Sync::automatic, Sync::manual, Sync::check}) {
    if (*text == heddle::name(sync)) options.sync = sync;
  }
  if (!options.sync) refuse(name, *text, "automatic, manual or check");
}

void take_tune(const char* name, BackendOptions& options) {
  const auto text = get_word(name);
  if (!text || options.tune) return;
  for (const Tune tune : {Tune::off, Tune::kept, Tune::measure}) {
    if (*text == heddle::name(tune)) options.tune = tune;
  }
  if (!options.tune) refuse(name, *text, "off, kept or measure");
}

void take_cuda_check(const char* name, BackendOptions& options) {
  const auto text = get_word(name);
  if (!text || options.cuda_check_each) return;
  if (*text != "marks" && *text != "each") refuse(name, *text, "marks or each");
  options.cuda_check_each = *text == "each";
}

void take_width(const char* name, BackendOptions& options) {
  if (options.width) return;
  const auto text = get_word(name);
  if (!text) return;
  const auto all = static_cast<int>(std::min(available_processors(), sched::width_max));
  if (text == "all" || text == "auto") {
    options.width = text == "all" ? width_all : width_automatic;
    return;
  }
  int width = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), width);
  if (error != std::errc() || end != text->data() + text->size() || width < 1 || width > all) {
    refuse(name, *text, fmt::format("all, auto or a number from 1 to {}", all));
  }
  options.width = width;
}

void take_spin(const char* name, BackendOptions& options) {
  auto& spin = options.scheduling.device.spin;
  if (!spin) spin = time_between<std::chrono::nanoseconds, 0, 1'000'000'000>(name);
}

void take_log(const char* /*name*/, BackendOptions& /*options*/) {
  throw_if_failed(sched::read_log_level());
}

struct EnvironmentVariable {
  const char* name;
  const char* fallback;
  const char* meaning;
  Take take;
};

// The table of variables; ./dev tidy compares the table in README.md.
using Options = BackendOptions;
constexpr std::uint64_t any_bytes = ~std::uint64_t{0};
constexpr EnvironmentVariable variables[] = {
    {"HEDDLE_LOG", "warn", "off, error, warn, info, debug or trace, to stderr", take_log},
    {"HEDDLE_BACKEND", "gccjit, else cc", "backend that Backend::open() opens", take_backend},
    {"HEDDLE_CC", "cc", "C compiler of the cc backends", take<&Options::cc, get>},
    {"HEDDLE_CFLAGS", "",
     "flags added to heddle's own, separated by blanks; none that change the instruction set",
     take<&Options::cflags, words>},
    {"HEDDLE_ISA", "the processor's",
     "portable, avx2, avx512, avx512_vnni or avx512_bf16: the most that kernels may use", take_isa},
    {"HEDDLE_COMPILE_HELPER", "found beside the library", "path of heddle-compile",
     take<&Options::compile_helper, get>},
    {"HEDDLE_CUDA_DRIVER", "libcuda.so.1", "the CUDA driver, by name or path",
     take<&Options::cuda_driver, get>},
    {"HEDDLE_NVRTC", "the toolkit's", "NVRTC, which compiles for CUDA, by name or path",
     take<&Options::nvrtc, get>},
    {"HEDDLE_CUDA_CHECK", "marks",
     "each: a GPU runs one kernel at a time, and errors name the kernel that caused them",
     take_cuda_check},
    {"HEDDLE_COMPILE_TIMEOUT", "60", "seconds that one compile may take",
     take<&Options::compile_timeout, time_between<std::chrono::seconds, 1, 86'400>>},
    {"HEDDLE_TEMP_DIR", "TMPDIR, else /tmp", "where compilers work",
     take<&Options::temp_dir, temp_dir>},
    {"HEDDLE_DUMP_DIR", "",
     "keeps text and library of every compile here, this user's alone, for perf and gdb too",
     take<&Options::dump_dir, get>},
    {"HEDDLE_PERF_MAP", "off", "on: names of kernels go to /tmp/perf-PID.map, for perf and gdb",
     take<&Options::perf_map, switched<false>>},
    {"HEDDLE_CACHE", "on", "off: compiled kernels are not kept on disk",
     take<&Options::cache, switched<true>>},
    {"HEDDLE_CACHE_DIR", "~/.cache/heddle",
     "where they are kept: an absolute path, this user's alone (XDG_CACHE_HOME counts)",
     take<&Options::cache_dir, cache_dir>},
    {"HEDDLE_CACHE_BYTES_MAX", "268435456", "bytes kept; what was not used for longest goes first",
     take<&Options::cache_bytes_max, number_between<std::uint64_t, 0, any_bytes>>},
    {"HEDDLE_TUNE", "kept",
     "kept: schedules take what was measured for a program; measure: where nothing was, it is; off",
     take_tune},
    {"HEDDLE_VIRTUAL_DEVICES", "by strategy", "suggested virtual devices per physical device",
     take<&Options::virtual_devices, number_between<int, 1, virtual_devices_max>>},
    {"HEDDLE_BYTES_MAX", "",
     "bytes of memory that each virtual device may take, those kept for reuse included",
     take<&Options::bytes_max, number_between<std::uint64_t, 1, any_bytes>>},
    {"HEDDLE_QUEUE_SIZE", "4096", "tasks outstanding per device", take_queue_size},
    {"HEDDLE_SYNC", "automatic",
     "manual: order between devices is the caller's; check: so it is, and what is missing is told",
     take_sync},
    {"HEDDLE_WIDTH", "auto",
     "processors of a physical CPU device: a number, or all; auto: one, and those that are free",
     take_width},
    {"HEDDLE_SPIN_NS", "50000", "nanoseconds an idle worker spins before it sleeps", take_spin},
};

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

/// A hint for an unknown name: the nearest name, if at most a third of the letters behind the
/// prefix differ; otherwise the list of names.
std::string what_for(std::string_view name) {
  const auto distance = [&](const EnvironmentVariable& v) { return edit_distance(name, v.name); };
  const EnvironmentVariable& nearest = *std::ranges::min_element(variables, {}, distance);
  if (distance(nearest) * 3 <= name.size() - std::string_view("HEDDLE_").size())
    return fmt::format("did you mean {}?", nearest.name);
  std::string known;
  for (const EnvironmentVariable& v : variables)
    known += fmt::format("{}{}", known.empty() ? "" : ", ", v.name);
  return "these are: " + known;
}

/// Logs unknown HEDDLE_ variables once, because a misspelt variable has no effect. HEDDLE_TEST_
/// variables belong to the tests.
void warn_of_unknown() {
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const std::string_view name = text.substr(0, text.find('='));
    const bool is_ours = name.starts_with("HEDDLE_") && !name.starts_with("HEDDLE_TEST_");
    if (!is_ours ||
        std::ranges::find(variables, name, &EnvironmentVariable::name) != std::end(variables))
      continue;
    log(LogLevel::warn,
        fmt::format("environment variable {} is none of heddle's; {}", name, what_for(name)));
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
  for (char& c : result) c = files::lower(c);
  return result;
}

std::string default_temp_dir() {
  return get("HEDDLE_TEMP_DIR").value_or(get("TMPDIR").value_or("/tmp"));
}

BackendOptions with_environment(BackendOptions options) {
  for (const EnvironmentVariable& variable : variables) variable.take(variable.name, options);
  static std::once_flag once;
  std::call_once(once, [] {
    warn_of_unknown();
    rt::warn_of_unheeded();
  });
  return options;
}

jit::KernelCache::Options kernel_cache_options(const BackendOptions& options) {
  jit::KernelCache::Options cache;
  if (options.cache.value_or(false)) {
    cache.directory = options.cache_dir.value_or("");
    const UserCacheDir place = user_cache_dir();
    cache.absence = place.absence;
    static std::once_flag once;
    if (place.is_others && cache.directory.empty()) {
      std::call_once(once,
                     [&] { log(LogLevel::warn, "the kernel cache is off: " + place.absence); });
    }
  }
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
  for (const EnvironmentVariable& v : variables) {
    const auto value = get(v.name);
    const std::string absence =
        std::string_view(v.name) == "HEDDLE_CACHE_DIR" ? user_cache_dir().absence : "";
    const std::string fallback = absence.empty() ? v.fallback : "none: " + absence;
    result.push_back(
        {v.name, value.value_or(fallback), value ? "environment" : "default", v.meaning});
  }
  return result;
}

}  // namespace heddle
