// The table of backends. A CPU backend is a compiler and a mode: each name is a row.
#include "runtime/registry.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>

#include "devices/device.hpp"
#include "heddle/scheduler.hpp"
#include "heddle/status.hpp"
#include "runtime/config.hpp"
#include "scheduler/threads/process_mutex.hpp"

namespace heddle {
namespace rt {
namespace {

std::vector<std::shared_ptr<dev::PhysicalDevice>> cpu_devices() {
  std::vector<std::shared_ptr<dev::PhysicalDevice>> devices;
  for (unsigned k = 0; k < available_processors(); ++k) devices.push_back(dev::make_cpu_device());
  return devices;
}

constinit sched::ProcessMutex rows_mutex;

/// Under the lock. Never destroyed: backends may be opened by static objects.
std::vector<BackendSpec>& rows() {
  static auto& all = *new std::vector<BackendSpec>{
      {"gccjit", "gccjit", sched::Mode::threaded, cpu_devices},
      {"cc", "cc", sched::Mode::threaded, cpu_devices},
      {"sync_gccjit", "gccjit", sched::Mode::inline_, cpu_devices},
      {"sync_cc", "cc", sched::Mode::inline_, cpu_devices},
      {"pooled_gccjit", "gccjit", sched::Mode::pooled, cpu_devices},
      {"pooled_cc", "cc", sched::Mode::pooled, cpu_devices},
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

std::vector<BackendInfo> all_absent() {
  std::vector<BackendInfo> result{
      {"cuda",
       Status(ErrorCode::unavailable,
              "this heddle was built without a CUDA backend; use cc or gccjit, or register one"),
       ""}};
  std::erase_if(result, [](const BackendInfo& info) { return find_spec(info.name).has_value(); });
  return result;
}

std::optional<BackendInfo> find_absent(std::string_view name) {
  for (BackendInfo& info : all_absent()) {
    if (info.name == lower(name)) return std::move(info);
  }
  return std::nullopt;
}

std::shared_ptr<const jit::Compiler> make_compiler(const BackendSpec& spec,
                                                   const BackendOptions& options) {
  jit::ToolOptions tools;
  if (options.cc) tools.cc = *options.cc;
  if (options.cflags) tools.cflags = *options.cflags;
  if (options.isa) tools.target = jit::narrowed_target(*options.isa);
  if (options.kernels) {
    jit::check(*options.kernels);
    tools.target.profile = *options.kernels;
  }
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
  if (spec.compiler == "null") return jit::make_null_compiler();
  throw Error(ErrorCode::invalid_argument,
              fmt::format("backend '{}' asks for compiler '{}' (expected cc, gccjit or null)",
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
