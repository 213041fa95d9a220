// Backend: opening by name, its devices, compiling.
#include <fmt/format.h>

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <system_error>

#include "heddle/status.hpp"
#include "jit/code/code.hpp"
#include "runtime/backend_state.hpp"
#include "runtime/compiling.hpp"
#include "runtime/config.hpp"
#include "runtime/registry.hpp"

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

/// A path that can be no helper is a mistake of who set it, not a reason to choose another backend.
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

/// What devices would refuse, or could not work with, is told before there are any.
void check(const BackendOptions& options) {
  if (const auto capacity = options.scheduler.device.capacity;
      capacity && (*capacity == 0 || *capacity > sched::capacity_max)) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("BackendOptions::scheduler.device.capacity is {} (expected 1 to {})",
                            *capacity, sched::capacity_max));
  }
  if (options.bytes_max == std::uint64_t{0}) {
    throw Error(ErrorCode::invalid_argument,
                "BackendOptions::bytes_max is 0 (expected 1 or more; unset, the machine bounds "
                "its devices)");
  }
  if (options.virtual_devices && *options.virtual_devices < 1) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("BackendOptions::virtual_devices is {} (expected 1 or more)",
                            *options.virtual_devices));
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

Backend Backend::open(std::string name) {
  BackendOptions options;
  options.name = std::move(name);
  return open(std::move(options));
}

Backend Backend::open(BackendOptions given) {
  const Asked asked{!given.name.empty(), given.compile_helper.has_value()};
  BackendOptions options = rt::with_environment(std::move(given));
  check(options);
  BackendSpec spec = choose(options, asked);
  options.scheduler.name = spec.name;
  auto state = std::make_shared<rt::BackendState>(options.scheduler);
  state->spec = std::move(spec);
  state->options = options;
  state->compiler = rt::make_compiler(state->spec, options);
  if (Status status = state->compiler->available(); !status.ok())
    refuse_unusable(state->spec.name, status);
  state->physical = state->spec.devices();
  if (state->physical.empty()) {
    throw Error(ErrorCode::unavailable,
                fmt::format("backend '{}' has no devices", state->spec.name));
  }
  state->opened.resize(state->physical.size(), 0);
  return Backend(std::move(state));
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

PhysicalDevice Backend::physical_device(int ordinal) const {
  if (ordinal < 0 || ordinal >= num_physical_devices()) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("backend '{}' has physical devices 0 to {}, not {}", name(),
                            num_physical_devices() - 1, ordinal));
  }
  return PhysicalDevice(state_, ordinal);
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

bool Backend::poll(std::chrono::nanoseconds budget) const { return state_->scheduler.poll(budget); }
bool Backend::run_one(std::chrono::nanoseconds budget) const {
  return state_->scheduler.run_one(budget);
}
int Backend::descriptor() const { return state_->scheduler.descriptor(); }
std::vector<sched::Snapshot> Backend::snapshot() const { return state_->scheduler.snapshot(); }

KernelCacheCounters Backend::compile_counters() const noexcept {
  return state_->compiler->counters();
}

void Backend::finalize(std::chrono::nanoseconds timeout) const {
  {
    const std::lock_guard lock(state_->mutex);  // a device that is being opened is shut down too
    // release: pairs with the acquires of who asks. Before the shutdown, as in Device::finalize().
    state_->finalized.store(true, std::memory_order_release);
  }
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  const Status compiles = state_->compiles.shutdown(timeout);
  const Status devices = state_->scheduler.shutdown(
      std::max(std::chrono::nanoseconds(0),
               std::chrono::nanoseconds(deadline - std::chrono::steady_clock::now())));
  {
    const std::lock_guard lock(state_->mutex);
    for (const auto& weak : state_->executions) {
      if (const auto execution = weak.lock()) execution->merge.clear();
    }
  }
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
