// See runtime/launch/loaded.hpp.
#include "runtime/launch/loaded.hpp"

#include <variant>

#include "jit/system/inside.hpp"
#include "runtime/device/backend_state.hpp"
#include "runtime/device/execution.hpp"
#include "scheduler/device/helpers.hpp"

namespace heddle::rt {
namespace {

std::shared_ptr<const dev::Module> load(BackendState& backend, dev::PhysicalDevice& device,
                                        const jit::Compiled& unit) {
  const BackendOptions& wanted = backend.options;
  dev::LoadOptions load_options;
  load_options.name = unit.name;
  load_options.labels = unit.labels;
  load_options.perf_map = wanted.perf_map.value_or(false);
  if (wanted.dump_dir) load_options.library_dir = *wanted.dump_dir;
  if (wanted.temp_dir) load_options.temp_dir = *wanted.temp_dir;
  return backend.modules.load(device, unit.image, load_options);
}

}  // namespace

std::vector<LoadedStep> load_steps(BackendState& backend, const Execution& execution,
                                   std::vector<jit::Step> steps) {
  std::vector<LoadedStep> loaded;
  std::size_t num_buffers = 0;
  for (jit::Step& step : steps) {
    LoadedStep& made = loaded.emplace_back(LoadedStep{std::move(step)});
    const auto* const kernel = std::get_if<jit::KernelStep>(&made.step);
    if (kernel == nullptr) continue;
    made.module = load(backend, *execution.physical, *kernel->unit);
    if (kernel->parts > 1 && execution.starts_helpers) execution.helpers->start();
    made.first_buffer = num_buffers;
    num_buffers += kernel->entries.size();
  }
  return loaded;
}

void Tables::begin(const Loaded& loaded) {
  entries_.assign(Inside::of(loaded.code)->signature().entries.size(), {});
  std::size_t num_buffers = 0;
  for (const LoadedStep& step : loaded.steps) {
    if (const auto* const kernel = std::get_if<jit::KernelStep>(&step.step))
      num_buffers += kernel->entries.size();
  }
  kernels_.resize(num_buffers);
}

void Tables::end(const Loaded& loaded) noexcept {
  auto to = kernels_.begin();
  for (const LoadedStep& step : loaded.steps) {
    const auto* const kernel = std::get_if<jit::KernelStep>(&step.step);
    if (kernel == nullptr) continue;
    for (const std::uint32_t entry : kernel->entries) *to++ = entries_[entry];
  }
}

}  // namespace heddle::rt
