// See explain.hpp.
#include "tools/explain/explain.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <filesystem>
#include <iterator>
#include <span>
#include <vector>

#include "heddle/routine.hpp"
#include "jit/code/code.hpp"
#include "jit/loop/signature.hpp"
#include "jit/loop/text.hpp"
#include "jit/lower/lower.hpp"
#include "jit/machine/rates.hpp"
#include "jit/schedule/scalar_part.hpp"
#include "jit/system/inside.hpp"
#include "tools/explain/cost.hpp"
#include "tools/tune_program.hpp"

namespace heddle::tools {
namespace {

using Clock = std::chrono::steady_clock;

std::string section(std::string_view title, std::string_view text) {
  return fmt::format("== {}\n{}{}\n", title, text, text.ends_with('\n') ? "" : "\n");
}

/// Small nonzero numbers: zeros could make a kernel look faster than it is.
HostArray contents(const ArrayType& type) {
  return HostArray::fill(type, std::vector<double>{1, 2, 0.5, 1.5, 0.75});
}

/// Fills the inputs of the routine.
void fill_inputs(const Device& device, const Routine& routine) {
  const jit::CodeData& data = *Inside::of(routine.code());
  for (std::size_t k = 0; k < data.signature().entries.size(); ++k) {
    const jit::SignatureEntry& entry = data.signature().entries[k];
    if (!entry.reads || entry.role == jit::Role::scratch || entry.role == jit::Role::merge)
      continue;
    const HostArray host = contents(entry.type);
    throw_if_failed(routine.context()
                        .view(*data.tensor(k))
                        .from_host(device, std::span(static_cast<const std::byte*>(host.data()),
                                                     host.num_bytes()))
                        .wait());
  }
}

/// Seconds for a run from schedule() to its end. Other programs lengthen the median.
struct Measured {
  double best = 0;
  double median = 0;
};
Measured measure(const Routine& routine, const Bindings& bindings) {
  constexpr auto length = std::chrono::milliseconds(300);
  constexpr std::size_t runs_min = 3;
  std::vector<double> seconds;
  const auto end = Clock::now() + length;
  while (seconds.size() < runs_min || Clock::now() < end) {
    const auto from = Clock::now();
    throw_if_failed(routine.schedule(bindings).wait());
    seconds.push_back(std::chrono::duration<double>(Clock::now() - from).count());
  }
  std::ranges::sort(seconds);
  return {seconds.front(), seconds[seconds.size() / 2]};
}

std::string scaled(double value, std::string_view unit) {
  constexpr std::string_view prefixes[] = {"", "k", "M", "G", "T"};
  std::size_t k = 0;
  for (; value >= 1000 && k + 1 < std::size(prefixes); ++k) value /= 1000;
  return fmt::format("{:.3g} {}{}", value, prefixes[k], unit);
}
std::string time_text(double seconds) {
  if (seconds < 1e-6) return fmt::format("{:.3g} ns", seconds * 1e9);
  if (seconds < 1e-3) return fmt::format("{:.3g} us", seconds * 1e6);
  return fmt::format("{:.3g} ms", seconds * 1e3);
}

std::string cost_text(const Cost& cost) {
  return fmt::format(
      "operations     {}\nbytes          {} read, {} written, {} of scratch\n"
      "per byte       {:.3g} operations\n",
      scaled(cost.operations, ""), scaled(cost.bytes_read, "B"), scaled(cost.bytes_written, "B"),
      scaled(cost.bytes_of_scratch, "B"), cost.bytes() > 0 ? cost.operations / cost.bytes() : 0);
}

std::string bound_text(const Cost& cost, const Measured& measured) {
  const double peak = jit::measure_peak_operations();
  const double bandwidth = jit::measure_read_bandwidth(cost.footprint());
  const double by_operations = cost.operations / peak;
  const double by_bytes = cost.bytes() / bandwidth;
  const double bound = std::max(by_operations, by_bytes);
  return fmt::format(
      "processor      {} of f32 multiply-adds, one thread\n"
      "memory         {} reading as many bytes as the program touches\n"
      "bound          {} by {} ({} by operations, {} by bytes)\n"
      "measured       {} at best, {} median, from schedule() to the end\n"
      "               {:.0f} % of the bound's speed at best\n"
      "               {}, {}\n",
      scaled(peak, "op/s"), scaled(bandwidth, "B/s"), time_text(bound),
      by_operations > by_bytes ? "operations" : "bytes", time_text(by_operations),
      time_text(by_bytes), time_text(measured.best), time_text(measured.median),
      100 * bound / measured.best, scaled(cost.operations / measured.best, "op/s"),
      scaled(cost.bytes() / measured.best, "B/s"));
}

}  // namespace

std::string explain(const Backend& backend, const Program& program, const ExplainOptions& options) {
  std::string text = section("described", program.to_string());
  CompileOptions compile_options;
  compile_options.fast_math = options.fast_math;
  const Code code = backend.compile(program, compile_options);
  const jit::CodeData& data = *Inside::of(code);
  const auto print = [](const jit::Lowered& lowered) {
    jit::LoopNames names;
    for (const Tensor& tensor : lowered.tensors) names.buffers.push_back(tensor.label());
    for (const StaticIndex& index : lowered.statics) names.statics.push_back(index.label());
    return jit::print(lowered.loop, &names);
  };
  text += section("lowered", code.unoptimized_text());
  const jit::Lowered optimized =
      jit::optimize(jit::lower(program), {.fast_math = options.fast_math},
                    [&](std::string_view pass, const jit::Lowered& after) {
                      text += section(pass, print(after));
                    });
  text += section(fmt::format("scheduled for {}", data.compiler->target().to_string()),
                  data.core->scheduled.loop == optimized.loop ? "as it is" : code.loop_text());
  std::string placements;
  for (const auto& [tensor, placement] : optimized.placements) {
    placements += fmt::format("{}: {} ({})\n", tensor.label(), name(placement.mode),
                              placement.provenance.empty() ? "as declared" : placement.provenance);
  }
  text += section("placements", placements);
  if (const auto& part = data.core->scalar_part) {
    const auto label = [&](jit::BufferId buffer) { return data.label(buffer); };
    text += section("scalar code", jit::text_of(*part, label));
  }
  if (const auto tuned = backend.tuned(program, compile_options)) {
    text += section(fmt::format("tuned, as kept in {}", tuned->file), tuned_table(*tuned, false));
  }
  text += section("signature", data.signature().serialize());
  if (options.source) text += section("source", code.source());
  text +=
      section("compiled", fmt::format("by {}, hash {}, in {:.1f} ms", backend.name(), code.hash(),
                                      static_cast<double>(code.compile_time().count()) / 1e6));
  const Device device = backend.physical_device(0).new_virtual_device();
  const Routine routine = Context(device).link(code);
  fill_inputs(device, routine);
  if (const auto merged = routine.merge_tensor()) {
    const Context source = Context(device).with(
        *merged, BufferView(Buffer::allocate(device, merged->type()), merged->type()));
    throw_if_failed(load_merge(routine, source, MergeMode::stream).event.wait());
  }
  Bindings bindings;
  for (const StaticIndex& index : code.statics()) bindings.emplace_back(index, 0);
  const Cost cost = cost_of(optimized.loop);
  text += section("cost", cost_text(cost));
  return text + section("limits", bound_text(cost, measure(routine, bindings)));
}

std::string explain(const Backend& backend, const Graph& graph, const ExplainOptions& options) {
  return section("graph", graph.to_string()) + explain(backend, graph.program().program, options);
}

std::optional<Graph> parse_graph(const std::string& name, std::string_view text) {
  std::size_t at = 0;
  while ((at = text.find_first_not_of(" \t\r\n", at)) < text.size() && text[at] == '#')
    at = text.find('\n', at);
  if (at >= text.size() || !text.substr(at).starts_with("heddle-graph")) return std::nullopt;
  try {
    return Graph::parse(text, std::filesystem::path(name).stem().string());
  } catch (const Error& error) {
    throw Error(error.code(), fmt::format("{}: {}", name, error.status().message()));
  }
}

}  // namespace heddle::tools
