// See kernels.hpp.
#include "jit/code/kernels.hpp"

#include <fmt/format.h>

#include <map>
#include <memory>

#include "jit/cache/key.hpp"
#include "jit/code/stages.hpp"
#include "jit/loop/text.hpp"
#include "jit/schedule/cut.hpp"

namespace heddle::jit {
namespace {

/// The elements of `all` at the positions in `which`.
template <class T>
std::vector<T> chosen(std::span<const T> all, const std::vector<std::uint32_t>& which) {
  std::vector<T> some;
  for (const std::uint32_t k : which) some.push_back(all[k]);
  return some;
}

/// A hash of everything that determines the compiled kernel: its text and the embedded values.
/// Kernels with equal hashes compile to the same code.
std::string hash_of(const KernelSource& kernel, bool traced) {
  const std::string text = hash(*kernel.loop);
  if (!traced && kernel.addresses.empty()) return text;
  KeyHasher hasher;
  hasher.add(text).add(traced ? "traced" : "");
  for (const auto& address : kernel.addresses) hasher.add(address ? std::to_string(*address) : "");
  return to_hex(hasher.finish()).substr(0, text.size());
}

KernelSource kernel_of(const CodeData& code, const KernelStep& step,
                       std::span<const std::optional<std::uint64_t>> addresses) {
  KernelSource kernel;
  kernel.label = step.about.empty() ? code.name : fmt::format("{} ({})", code.name, step.about);
  kernel.loop = step.loop;
  kernel.lanes = step.lanes;
  const LoopNames names = names_of(code.core->scheduled, code);
  kernel.names = {chosen(std::span(names.buffers), step.entries),
                  chosen(std::span(names.statics), step.statics)};
  if (!addresses.empty()) kernel.addresses = chosen(addresses, step.entries);
  kernel.name = hash_of(kernel, code.options.trace_values);
  return kernel;
}

/// Calls `f` for each kernel step, in the order of the codes.
template <class F>
void each_kernel(std::span<const Uncompiled> codes, const F& f) {
  for (const Uncompiled& each : codes) {
    bool is_first = true;
    for (Step& step : *each.steps) {
      auto* const kernel = std::get_if<KernelStep>(&step);
      if (kernel == nullptr) continue;
      f(*each.code, *kernel, is_first);
      is_first = false;
    }
  }
}

}  // namespace

KernelUnits units_of(std::span<const Uncompiled> codes, const std::string& name,
                     std::span<const std::optional<std::uint64_t>> addresses) {
  KernelUnits result;
  std::map<std::string, KernelUnits::Place> known;  // by name
  std::size_t nodes = 0;                            // of the last unit
  each_kernel(codes, [&](const CodeData& code, const KernelStep& step, bool is_first) {
    KernelSource kernel = kernel_of(code, step, addresses);
    if (const auto at = known.find(kernel.name); at != known.end()) {
      result.places.push_back(at->second);
      return;
    }
    if (is_first) {  // for dumps, which show a program once
      kernel.unoptimized = {code.core, &code.core->unoptimized.loop};
      kernel.unoptimized_names = names_of(code.core->unoptimized, code);
    }
    const std::size_t more = nodes_of(*step.loop);
    if (result.units.empty() || nodes + more > kernel_nodes_max) {
      result.units.push_back({name, {}, code.options.trace_values});
      nodes = 0;
    }
    nodes += more;
    CompileUnit& unit = result.units.back();
    const KernelUnits::Place place{result.units.size() - 1, unit.kernels.size()};
    result.places.push_back(known.emplace(kernel.name, place).first->second);
    unit.kernels.push_back(std::move(kernel));
  });
  for (std::size_t k = 1; k < result.units.size(); ++k)
    result.units[k].name += fmt::format("_and_{}", k);
  return result;
}

void compile_kernels(std::span<const Uncompiled> codes, const std::string& name,
                     std::span<const std::optional<std::uint64_t>> addresses,
                     const CompileLimits& limits, const Spread& spread) {
  /// State shared by the threads.
  struct Run {
    std::shared_ptr<const Compiler> compiler;
    CompileLimits limits;
    KernelUnits kernels;
    std::vector<std::shared_ptr<const Compiled>> compiled;
  };
  auto run = std::make_shared<Run>(
      Run{codes.front().code->compiler, limits, units_of(codes, name, addresses), {}});
  run->compiled.resize(run->kernels.units.size());
  const auto compile = [run](std::size_t k) {
    run->compiled[k] = run->compiler->compile(run->kernels.units[k], run->limits);
  };
  run_parts(run->compiled.size(), compile, spread, fmt::format("'{:.200}'", name));
  std::size_t next = 0;
  each_kernel(codes, [&](const CodeData&, KernelStep& step, bool) {
    const KernelUnits::Place& place = run->kernels.places[next++];
    step.unit = run->compiled[place.unit];
    step.index = place.index;
  });
}

}  // namespace heddle::jit
