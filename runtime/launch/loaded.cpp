// See runtime/launch/loaded.hpp.
#include "runtime/launch/loaded.hpp"

#include <variant>

#include "jit/loop/rewrite.hpp"
#include "jit/system/inside.hpp"
#include "runtime/device/backend_state.hpp"
#include "runtime/device/execution.hpp"
#include "runtime/memory/buffer_state.hpp"
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

/// Bytes of local blocks from which on a kernel needs a stack of its own: threads of the host may
/// have little.
constexpr std::int64_t stack_bytes_max = 16 << 10;

std::optional<SingleKernel> single_of(const Execution& execution, const Loaded& loaded) {
  const jit::Signature& signature = Inside::of(loaded.code)->signature();
  if (loaded.steps.size() != 1 || signature.merge || execution.queue->runs_ahead()) return {};
  const LoadedStep& step = loaded.steps[0];
  const auto* const kernel = std::get_if<jit::KernelStep>(&step.step);
  if (kernel == nullptr || kernel->looks_at_stop ||
      kernel->statics.size() != signature.statics.size())
    return {};
  const bool in_parts = kernel->parts > 1 && execution.width > 1;
  if (in_parts && !kernel->own.empty()) return {};
  const std::int64_t blocks = kernel->loop ? jit::block_bytes(kernel->loop->body) : stack_bytes_max;
  return SingleKernel{step.module.get(), kernel->index, in_parts ? kernel->parts : 1,
                      blocks < stack_bytes_max};
}

}  // namespace

Loaded load(BackendState& backend, const Execution& execution, const Code& code,
            std::vector<jit::Step> steps) {
  Loaded loaded{code, {}, 0, false, {}};
  for (jit::Step& step : steps) {
    LoadedStep& made = loaded.steps.emplace_back(LoadedStep{std::move(step)});
    loaded.calls_host |= std::holds_alternative<jit::CallStep>(made.step);
    const auto* const kernel = std::get_if<jit::KernelStep>(&made.step);
    if (kernel == nullptr) continue;
    made.module = load(backend, *execution.physical, *kernel->unit);
    if (kernel->parts > 1 && execution.starts_helpers) execution.helpers->start();
    made.first_buffer = loaded.num_buffers;
    loaded.num_buffers += kernel->entries.size();
  }
  loaded.single = single_of(execution, loaded);
  return loaded;
}

bool is_stored(const jit::CodeData& code, std::size_t entry) noexcept {
  const jit::Role role = code.signature().entries[entry].role;
  return role != jit::Role::merge && role != jit::Role::scratch;
}

std::optional<std::size_t> entry_of(const jit::CodeData& code, const Tensor& tensor) {
  for (std::size_t k = 0; k < code.signature().entries.size(); ++k) {
    if (is_stored(code, k) && *code.tensor(k) == tensor) return k;
  }
  return std::nullopt;
}

Use use_of(const jit::SignatureEntry& entry) noexcept {
  if (!entry.writes) return Use::read;
  return entry.overwrites_whole ? Use::overwrite : Use::change;
}

std::vector<heddle_kernel_buffer> scratch_entries(const jit::CodeData& code,
                                                  const Memory* scratch) {
  const std::vector<jit::SignatureEntry>& signature = code.signature().entries;
  std::vector<heddle_kernel_buffer> entries(signature.size());
  for (std::size_t k = 0; scratch != nullptr && k < entries.size(); ++k) {
    if (signature[k].role != jit::Role::scratch) continue;
    entries[k] = {static_cast<std::byte*>(scratch->data) + code.core->scratch.offsets[k],
                  static_cast<std::uint64_t>(*signature[k].type.num_bytes())};
  }
  return entries;
}

void Tables::begin(const Loaded& loaded, const Memory* scratch) {
  const jit::CodeData& code = *Inside::of(loaded.code);
  entries_ = scratch_entries(code, scratch);
  if (scratch != nullptr)
    helpers = static_cast<std::byte*>(scratch->data) + code.core->scratch.bytes;
  kernels_.resize(loaded.num_buffers);
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
