// Backend: opening by name, its devices, compiling.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <system_error>

#include "heddle/status.hpp"
#include "jit/code/code.hpp"
#include "jit/system/inside.hpp"
#include "runtime/backend_state.hpp"
#include "runtime/compiling.hpp"
#include "runtime/config.hpp"
#include "runtime/device_state.hpp"
#include "runtime/execution.hpp"
#include "runtime/registry.hpp"
#include "scheduler/device/hooks.hpp"
#include "scheduler/device/timeline.hpp"

namespace heddle {
namespace {

/// What exists, and why the others cannot be used here.
std::string offers(const BackendOptions& options) {
  std::string text;
  for (const BackendSpec& spec : rt::all_specs()) {
    const Status status = rt::make_compiler(spec, options)->available();
    text += fmt::format("{}{}", text.empty() ? "" : ", ", spec.name);
    if (!status.ok()) text += fmt::format(" (unavailable: {})", status.message());
  }
  for (const BackendInfo& absent : rt::all_absent())
    text += fmt::format(", {} (unavailable: {})", absent.name, absent.status.message());
  return text;
}

[[noreturn]] void refuse_unusable(std::string_view name, const Status& why) {
  throw Error(why.code(), fmt::format("backend '{}' cannot be used here", name), why);
}

/// What the caller set, told from what the environment did.
struct Asked {
  bool name, compile_helper;
};

/// A path that can be no helper is a mistake in the settings, not a reason to choose another
/// backend.
void require_helper(const BackendOptions& options, const Asked& asked) {
  if (!options.compile_helper) return;
  std::error_code unreadable;
  const std::filesystem::path path = *options.compile_helper;
  if (std::filesystem::is_regular_file(path, unreadable) && ::access(path.c_str(), X_OK) == 0)
    return;
  throw Error(ErrorCode::invalid_argument,
              fmt::format("{} is '{}', which is no executable file (expected the path of "
                          "heddle-compile)",
                          asked.compile_helper ? "BackendOptions::compile_helper"
                                               : "environment variable HEDDLE_COMPILE_HELPER",
                          path.string()));
}

/// Nothing that was asked for goes without effect.
void check_scheduling(const BackendOptions& options) {
  const SchedulerOptions& asked = options.scheduling;
  if (asked.device.mode != sched::DeviceOptions().mode) {
    throw Error(ErrorCode::invalid_argument,
                "BackendOptions::scheduling.device.mode says nothing of a backend's devices; set "
                "BackendOptions::mode");
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
      {"profile", asked.profile != MachineProfile()}};
  for (const auto& [name, set] : of_schedulers) {
    if (!set) continue;
    throw Error(ErrorCode::invalid_argument,
                fmt::format("BackendOptions::scheduling.{} is of a scheduler that the backend "
                            "makes, and BackendOptions::scheduler is the host's own (give it to "
                            "that one when it is made)",
                            name));
  }
}

/// What devices would refuse, or could not work with, is told before there are any.
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
  if (options.sync && *options.sync > Sync::check) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("BackendOptions::sync is {} (expected a value of Sync)",
                            static_cast<int>(*options.sync)));
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

BackendSpec choose(const BackendOptions& options, const Asked& asked) {
  if (options.name.empty()) {
    require_helper(options, asked);
    const auto gccjit = rt::find_spec("gccjit");
    if (rt::make_compiler(*gccjit, options)->available().ok()) return *gccjit;
    return *rt::find_spec("cc");
  }
  if (auto spec = rt::find_spec(options.name)) {
    if (spec->compiler == "gccjit") require_helper(options, asked);
    return *std::move(spec);
  }
  if (const auto absent = rt::find_absent(options.name))
    refuse_unusable(absent->name, absent->status);
  throw Error(ErrorCode::invalid_argument,
              fmt::format("unknown backend '{}'{} (expected one of: {})", options.name,
                          asked.name ? "" : " in HEDDLE_BACKEND", offers(options)));
}

}  // namespace

Backend Backend::open() { return open(BackendOptions{}); }

Backend Backend::open_named(std::string name) {
  BackendOptions options;
  options.name = std::move(name);
  return open(std::move(options));
}

Backend Backend::open(BackendOptions given) {
  const Asked asked{!given.name.empty(), given.compile_helper.has_value()};
  BackendOptions options = rt::with_environment(std::move(given));
  check(options);
  BackendSpec spec = choose(options, asked);
  options.scheduling.name = spec.name;
  auto state = std::make_shared<rt::BackendState>(std::move(spec), std::move(options));
  state->compiler = rt::make_compiler(state->spec, state->options);
  if (Status status = state->compiler->available(); !status.ok())
    refuse_unusable(state->spec.name, status);
  state->physical = state->spec.devices();
  if (state->physical.empty()) {
    throw Error(ErrorCode::unavailable,
                fmt::format("backend '{}' has no devices", state->spec.name));
  }
  if (const auto none = std::ranges::find(state->physical, nullptr);
      none != state->physical.end()) {
    throw Error(
        ErrorCode::unavailable,
        fmt::format("backend '{}' has a null pointer for device {} of {}; leave it out of "
                    "what BackendSpec::devices gives",
                    state->spec.name, none - state->physical.begin(), state->physical.size()));
  }
  state->opened.resize(state->physical.size(), 0);
  return Inside::make<Backend>(std::move(state));
}

std::vector<BackendInfo> Backend::list() {
  const BackendOptions options = rt::with_environment({});
  std::vector<BackendInfo> result;
  for (const BackendSpec& spec : rt::all_specs()) {
    const auto compiler = rt::make_compiler(spec, options);
    BackendInfo info{spec.name};
    try {
      info.compiler = compiler->describe();
    } catch (const Error& error) {
      info.status = error.status();
    }
    result.push_back(std::move(info));
  }
  std::ranges::move(rt::all_absent(), std::back_inserter(result));
  return result;
}

const std::string& Backend::name() const noexcept { return state_->spec.name; }
int Backend::num_physical_devices() const noexcept {
  return static_cast<int>(state_->physical.size());
}

Hardware Backend::physical_device(int ordinal) const {
  if (ordinal < 0 || ordinal >= num_physical_devices()) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("backend '{}' has physical devices 0 to {}, not {}", name(),
                            num_physical_devices() - 1, ordinal));
  }
  return Inside::make<Hardware>(state_, ordinal);
}

int Backend::suggested_num_virtual_devices() const noexcept {
  if (state_->options.virtual_devices) return *state_->options.virtual_devices;
  const dev::Properties& properties = state_->physical.front()->properties();
  switch (state_->options.strategy) {
    case DeviceStrategy::physical_devices_only:
      return 1;
    case DeviceStrategy::for_parallel_copying:
      return 1 + static_cast<int>(properties.copy_engines);
    case DeviceStrategy::most_parallel_devices:
      return static_cast<int>(std::max(1u, properties.parallel_width));
  }
  return 1;
}

std::vector<Device> Backend::all_devices(int max) const {
  if (max < 1)
    throw Error(ErrorCode::invalid_argument,
                fmt::format("all_devices({}) (expected 1 or more)", max));
  std::vector<Device> devices;
  const int physical = std::min(num_physical_devices(), max);
  for (int ordinal = 0; ordinal < physical; ++ordinal) {
    // One place is kept for each physical device still to come.
    const int room = max - static_cast<int>(devices.size()) - (physical - ordinal - 1);
    for (int k = 0; k < std::min(suggested_num_virtual_devices(), room); ++k) {
      devices.push_back(physical_device(ordinal).new_virtual_device());
    }
  }
  return devices;
}

namespace {

void require_open(const rt::BackendState& state) {
  throw_if_failed(state.fork_status());
  // acquire: pairs with the release in Backend::finalize().
  if (!state.finalized.load(std::memory_order_acquire)) return;
  throw Error(ErrorCode::failed_precondition,
              fmt::format("backend '{}' was finalised; open another", state.spec.name));
}

}  // namespace

Code Backend::compile(const Program& program, const CompileOptions& options) const {
  require_open(*state_);
  const jit::CompileLimits limits = rt::limits_of(options.timeout);
  return jit::finish(jit::draft_program(program, options, state_->compiler, limits, state_->codes),
                     limits, rt::spread_over(state_->compiles));
}

CodeBatch Backend::compile_batch(std::span<const Program> programs,
                                 const BatchOptions& options) const {
  require_open(*state_);
  const jit::CompileLimits limits = rt::limits_of(options.each.timeout);
  return jit::finish(
      jit::draft_programs(programs, options, state_->compiler, limits, state_->codes), limits,
      rt::spread_over(state_->compiles));
}

PendingCode Backend::compile_async(const Program& program, const CompileOptions& options) const {
  require_open(*state_);
  const jit::CompileLimits asked = rt::limits_of(options.timeout);
  return rt::start_compile<Code>(
      state_->compiles, asked,
      [draft = jit::draft_program(program, options, state_->compiler, asked, state_->codes),
       compiles = state_->compiles](const jit::CompileLimits& limits) mutable {
        return jit::finish(std::move(draft), limits, rt::spread_over(compiles));
      });
}

PendingBatch Backend::compile_batch_async(std::span<const Program> programs,
                                          const BatchOptions& options) const {
  require_open(*state_);
  const jit::CompileLimits asked = rt::limits_of(options.each.timeout);
  return rt::start_compile<CodeBatch>(
      state_->compiles, asked,
      [draft = jit::draft_programs(programs, options, state_->compiler, asked, state_->codes),
       compiles = state_->compiles](const jit::CompileLimits& limits) mutable {
        return jit::finish(std::move(draft), limits, rt::spread_over(compiles));
      });
}

namespace {

/// This part of its devices that have not gone.
template <class T>
std::vector<std::shared_ptr<T>> living(rt::BackendState& state,
                                       std::weak_ptr<T> rt::BackendState::Opened::* part) {
  std::vector<std::shared_ptr<T>> result;
  const std::lock_guard lock(state.mutex);
  for (const rt::BackendState::Opened& device : state.devices) {
    if (auto held = (device.*part).lock()) result.push_back(std::move(held));
  }
  return result;
}

}  // namespace

bool Backend::poll(std::chrono::nanoseconds budget) const { return state_->scheduler.poll(budget); }
bool Backend::run_one(std::chrono::nanoseconds budget) const {
  return state_->scheduler.run_one(budget);
}
int Backend::descriptor() const { return state_->scheduler.descriptor(); }
std::vector<sched::Snapshot> Backend::snapshot() const {
  std::vector<sched::Snapshot> result = state_->scheduler.snapshot();
  if (result.empty()) return result;  // as in a forked child, where locks may be held for ever
  const auto own = living(*state_, &rt::BackendState::Opened::timeline);
  std::erase_if(result, [&](const sched::Snapshot& one) {
    return std::ranges::none_of(
        own, [&](const auto& device) { return device->timeline().id() == one.id; });
  });
  return result;
}

KernelCacheCounters Backend::compile_counters() const noexcept {
  return state_->compiler->counters();
}

void Backend::finalize(std::chrono::nanoseconds timeout) const {
  throw_if_failed(state_->fork_status());
  {
    const std::lock_guard lock(state_->mutex);  // a device that is being opened is shut down too
    // release: pairs with the acquires of threads that ask. Before the shutdown, as in
    // Device::finalize().
    state_->finalized.store(true, std::memory_order_release);
  }
  const auto deadline = sched::deadline_after(timeout);
  const Status compiles = state_->compiles.shutdown(timeout);
  // Not the scheduler, which may be the host's.
  const auto own = living(*state_, &rt::BackendState::Opened::timeline);
  std::vector<sched::DeviceCore*> cores;
  for (const auto& device : own) cores.push_back(device.get());
  const Status devices = sched::DeviceCore::shutdown(
      cores,
      std::max(std::chrono::nanoseconds(0), std::chrono::nanoseconds(deadline - sched::now())));
  for (const auto& execution : living(*state_, &rt::BackendState::Opened::execution))
    execution->merge.clear();
  throw_if_failed(devices);
  throw_if_failed(compiles);
}

std::string Backend::to_string() const {
  const auto compiler = [this] {
    try {
      return state_->compiler->describe();
    } catch (const Error& error) {
      return std::string(error.status().message());
    }
  };
  return fmt::format("backend {}: {} physical devices, {}", name(), num_physical_devices(),
                     compiler());
}

}  // namespace heddle
