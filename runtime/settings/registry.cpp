// The table of backends. A row is a name, a compiler, a mode and devices. Any thread.
#include "runtime/settings/registry.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>

#include "devices/cuda_device.hpp"
#include "devices/device.hpp"
#include "heddle/scheduler.hpp"
#include "heddle/status.hpp"
#include "jit/machine/profile.hpp"
#include "runtime/settings/config.hpp"
#include "scheduler/observe/log.hpp"
#include "scheduler/threads/process_mutex.hpp"

namespace heddle {
namespace rt {
namespace {

std::vector<std::shared_ptr<dev::PhysicalDevice>> cpu_devices() {
  std::vector<std::shared_ptr<dev::PhysicalDevice>> devices;
  for (unsigned k = 0; k < available_processors(); ++k) devices.push_back(dev::make_cpu_device());
  return devices;
}

/// The only row whose devices depend on options.
constexpr std::string_view cuda_row = "cuda";

std::vector<std::shared_ptr<dev::PhysicalDevice>> cuda_devices(const BackendOptions& options) {
  Status why;
  const auto driver = dev::cuda::open_driver(options.cuda_driver.value_or(""), &why);
  throw_if_failed(why);
  std::vector<std::shared_ptr<dev::PhysicalDevice>> devices;
  for (int k = 0; k < driver->devices; ++k) {
    // Kernels are compiled for the first device.
    if (dev::cuda_capability(*driver, k) != dev::cuda_capability(*driver, 0)) continue;
    Status failed;
    if (auto device =
            dev::make_cuda_device(driver, k, &failed, options.cuda_check_each.value_or(false))) {
      devices.push_back(std::move(device));
    } else {  // another process may hold the device exclusively
      sched::log_made(LogLevel::warn, [&] { return "left out: " + failed.to_string(); });
      if (why.ok()) why = failed;
    }
  }
  if (devices.empty()) throw_if_failed(why);
  return devices;
}

constinit sched::ProcessMutex rows_mutex;

/// Under the lock. Never destroyed: static objects may open backends.
std::vector<BackendSpec>& rows() {
  static auto& all = *new std::vector<BackendSpec>{
      {"gccjit", "gccjit", sched::Mode::threaded, cpu_devices},
      {"cc", "cc", sched::Mode::threaded, cpu_devices},
      {"sync_gccjit", "gccjit", sched::Mode::inline_, cpu_devices},
      {"sync_cc", "cc", sched::Mode::inline_, cpu_devices},
      {"pooled_gccjit", "gccjit", sched::Mode::pooled, cpu_devices},
      {"pooled_cc", "cc", sched::Mode::pooled, cpu_devices},
      {std::string(cuda_row), "nvrtc", sched::Mode::threaded,
       [] { return cuda_devices(BackendOptions()); }},
      {"null", "null", sched::Mode::threaded, [] { return std::vector{dev::make_null_device()}; }},
  };
  return all;
}

}  // namespace

std::vector<BackendSpec> all_specs() {
  const std::lock_guard lock(rows_mutex);
  return rows();
}

std::optional<BackendSpec> find_spec(std::string_view name) {
  const std::string wanted = lower(name);
  for (BackendSpec& spec : all_specs()) {
    if (lower(spec.name) == wanted) return std::move(spec);
  }
  return std::nullopt;
}

std::vector<std::shared_ptr<dev::PhysicalDevice>> devices_of(const BackendSpec& spec,
                                                             const BackendOptions& options) {
  return spec.name == cuda_row ? cuda_devices(options) : spec.devices();
}

std::shared_ptr<const jit::Compiler> make_compiler(const BackendSpec& spec,
                                                   const BackendOptions& options) {
  jit::ToolOptions tools;
  if (options.cc) tools.cc = *options.cc;
  if (options.cflags) tools.cflags = *options.cflags;
  if (options.isa) tools.target = jit::narrowed_target(*options.isa);
  if (options.kernels) jit::check(*options.kernels);
  tools.target.profile =
      options.kernels.value_or(jit::kernels_on(options.machine.value_or(MachineProfile())));
  if (options.compile_helper) tools.compile_helper = *options.compile_helper;
  if (options.compile_timeout) tools.compile_timeout = *options.compile_timeout;
  if (options.temp_dir) tools.temp_dir = *options.temp_dir;
  if (options.dump_dir) tools.dump_dir = *options.dump_dir;
  const jit::KernelCache::Options cache = kernel_cache_options(options);
  tools.cache_dir = cache.directory;
  tools.cache_bytes_max = cache.bytes_max;
  tools.warn = cache.warn;
  if (spec.compiler == "cc") return jit::make_cc_compiler(tools);
  if (spec.compiler == "gccjit") return jit::make_gccjit_compiler(tools);
  if (spec.compiler == "nvrtc") {
    Status why;
    const auto driver = dev::cuda::open_driver(options.cuda_driver.value_or(""), &why);
    if (!why.ok()) return jit::make_absent_compiler("nvrtc", why);
    const int capability = dev::cuda_capability(*driver, 0);
    if (capability == 0) {
      return jit::make_absent_compiler(
          "nvrtc", Status(ErrorCode::unavailable,
                          fmt::format("the CUDA driver {} does not tell the compute capability of "
                                      "GPU 0",
                                      driver->file)));
    }
    tools.cuda_major = static_cast<std::uint32_t>(driver->version / 1000);
    if (options.nvrtc) tools.nvrtc = *options.nvrtc;
    tools.target = jit::gpu_target(capability);
    return jit::make_nvrtc_compiler(tools);
  }
  if (spec.compiler == "null") return jit::make_null_compiler();
  throw Error(
      ErrorCode::invalid_argument,
      fmt::format("backend '{}' asks for compiler '{}' (expected cc, gccjit, nvrtc or null)",
                  spec.name, spec.compiler));
}

}  // namespace rt

void register_backend(BackendSpec spec) {
  if (spec.name.empty() || !spec.devices) {
    throw Error(
        ErrorCode::invalid_argument,
        fmt::format("backend '{}' needs a name and a function that gives its devices", spec.name));
  }
  static_cast<void>(rt::make_compiler(spec, {}));  // refuses an unknown compiler
  if (rt::find_spec(spec.name)) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("a backend '{}' exists already; choose another name", spec.name));
  }
  const std::lock_guard lock(rt::rows_mutex);
  rt::rows().push_back(std::move(spec));
}

}  // namespace heddle
