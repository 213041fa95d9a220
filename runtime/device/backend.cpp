// Backend: opens backends by name, opens their devices, and finalises them.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <system_error>

#include "heddle/status.hpp"
#include "jit/system/inside.hpp"
#include "runtime/device/backend_state.hpp"
#include "runtime/device/compiling.hpp"
#include "runtime/device/device_state.hpp"
#include "runtime/device/execution.hpp"
#include "runtime/device/machine.hpp"
#include "runtime/device/tuned.hpp"
#include "runtime/device/widths.hpp"
#include "runtime/settings/backend_options.hpp"
#include "runtime/settings/config.hpp"
#include "runtime/settings/registry.hpp"
#include "scheduler/device/clocks.hpp"
#include "scheduler/device/hooks.hpp"
#include "scheduler/device/timeline.hpp"

namespace heddle {
namespace {

/// The names of the known backends, with the reason why one is unavailable.
std::string offers(const BackendOptions& options) {
  std::string text;
  for (const BackendSpec& spec : rt::all_specs()) {
    const Status status = rt::make_compiler(spec, options)->available();
    text += fmt::format("{}{}", text.empty() ? "" : ", ", spec.name);
    if (!status.ok()) text += fmt::format(" (unavailable: {})", status.message());
  }
  return text;
}

[[noreturn]] void refuse_unusable(std::string_view name, const Status& why) {
  throw Error(why.code(), fmt::format("backend '{}' cannot be used here", name), why);
}

/// Settings given by the caller, as opposed to the environment.
struct Asked {
  bool name, compile_helper, width;
};

/// A helper path without an executable file is a mistake in the settings, and no reason to choose
/// another backend.
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

BackendSpec choose(const BackendOptions& options, const Asked& asked) {
  if (options.name.empty()) {
    require_helper(options, asked);
    const auto gccjit = rt::find_spec("gccjit");
    if (rt::make_compiler(*gccjit, options)->available().ok()) return *gccjit;
    return *rt::find_spec("cc");
  }
  if (auto spec = rt::find_spec(options.name)) {
    if (spec->compiler == "gccjit" || spec->compiler == "nvrtc") require_helper(options, asked);
    return *std::move(spec);
  }
  throw Error(ErrorCode::invalid_argument,
              fmt::format("unknown backend '{}'{} (expected one of: {})", options.name,
                          asked.name ? "" : " in HEDDLE_BACKEND", offers(options)));
}

/// The tuned schedules stored for this compiler on this machine.
std::shared_ptr<rt::Tuned> tuned_of(const rt::BackendState& state) {
  const jit::Target& target = state.compiler->target();
  // A program's key includes neither the compiler nor the machine.
  std::string machine =
      fmt::format("{}; {}; {}; width {} of {}", jit::processor_stamp(), target.to_string(),
                  state.spec.compiler, state.width, available_processors());
  return std::make_shared<rt::Tuned>(rt::kernel_cache_options(state.options).directory,
                                     std::move(machine), target);
}

}  // namespace

Backend Backend::open() { return open(BackendOptions{}); }

Backend Backend::open_named(std::string name) {
  BackendOptions options;
  options.name = std::move(name);
  return open(std::move(options));
}

Backend Backend::open(BackendOptions given) {
  const Asked asked{!given.name.empty(), given.compile_helper.has_value(), given.width.has_value()};
  BackendOptions options = rt::with_environment(std::move(given));
  rt::check(options);
  rt::take_machine(options);
  BackendSpec spec = choose(options, asked);
  options.scheduling.name = spec.name;
  auto state = std::make_shared<rt::BackendState>(std::move(spec), std::move(options));
  state->compiler = rt::make_compiler(state->spec, state->options);
  if (Status status = state->compiler->available(); !status.ok())
    refuse_unusable(state->spec.name, status);
  state->physical = rt::devices_of(state->spec, state->options);
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
  rt::share_processors(*state, asked.width);
  state->tuned = tuned_of(*state);
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
  return result;
}

const std::string& Backend::name() const noexcept { return state_->spec.name; }
const MachineProfile& Backend::machine() const noexcept { return *state_->options.machine; }
int Backend::width() const noexcept { return state_->width; }
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
    // Reserves one place per remaining physical device.
    const int room = max - static_cast<int>(devices.size()) - (physical - ordinal - 1);
    for (int k = 0; k < std::min(suggested_num_virtual_devices(), room); ++k) {
      devices.push_back(physical_device(ordinal).new_virtual_device());
    }
  }
  return devices;
}

namespace {

/// `part` of each device that is still alive.
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
  // for example in a forked child, where locks may be held for ever
  if (result.empty()) return result;
  const auto own = living(*state_, &rt::BackendState::Opened::timeline);
  std::erase_if(result, [&](const sched::Snapshot& one) {
    return std::ranges::none_of(
        own, [&](const auto& device) { return device->timeline().id() == one.id; });
  });
  return result;
}

std::uint64_t Backend::missing_orders() const noexcept {
  if (sched::Clocks::on()) sched::Clocks::tell_due();
  return state_->order->told();
}

KernelCacheCounters Backend::compile_counters() const noexcept {
  return state_->compiler->counters();
}

void Backend::finalize(std::chrono::nanoseconds timeout) const {
  throw_if_failed(state_->fork_status());
  {
    const std::lock_guard lock(state_->mutex);  // a device being opened is shut down too
    // release: pairs with the acquires in open_status(), Hardware::new_virtual_device() and
    // runtime/tune/compile_calls.cpp. Before the shutdown, as in Device::finalize().
    state_->finalized.store(true, std::memory_order_release);
  }
  const auto deadline = sched::deadline_after(timeout);
  const Status compiles = state_->compiles.shutdown(timeout);
  // Only this backend's devices: the scheduler may be the host's.
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
