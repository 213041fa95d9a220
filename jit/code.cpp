// From Program to Code: naming, the stages in order, batches, and specialisation of postponed code.
#include "jit/code.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <set>

#include "heddle/status.hpp"
#include "jit/loop_text.hpp"
#include "jit/program_text.hpp"
#include "jit/schedule.hpp"

namespace heddle {
namespace {

using jit::CodeData;
using jit::KernelSource;
using jit::Lowered;

std::string name_of(const Program& program, const std::string& asked) {
  if (!asked.empty()) return asked;
  if (!program.name().empty()) return program.name();
  std::string name = jit::name_from_comments(program);
  if (name.empty()) {
    throw Error(
        ErrorCode::invalid_argument,
        fmt::format(
            "program has no name and no comments to make one from; name it: Program(\"name\") "
            "or CompileOptions::name. It begins:\n{}",
            program.to_string().substr(0, 200)));
  }
  return name;
}

/// Kernel names become symbols: letters, digits and '_' only.
std::string symbol(const std::string& name) {
  std::string text;
  for (const char c : name) text += std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
  return text.substr(0, 200);
}

jit::LoopNames names_of(const Lowered& lowered) {
  jit::LoopNames names;
  for (const Tensor& tensor : lowered.tensors) names.buffers.push_back(tensor.label());
  for (const StaticIndex& index : lowered.statics) names.statics.push_back(index.label());
  return names;
}

KernelSource kernel_of(const CodeData& code, std::string symbol_name) {
  KernelSource kernel;
  kernel.name = std::move(symbol_name);
  kernel.loop = std::make_shared<const jit::Loop>(code.lowered.loop);
  kernel.names = names_of(code.lowered);
  return kernel;
}

/// Scheduling leaves the interface as it was, but for scratch: some shrinks, some comes after it.
void set_scratch_entries(CodeData& code) {
  const auto& buffers = code.lowered.loop.buffers;
  for (std::size_t k = 0; k < code.signature.entries.size(); ++k)
    code.signature.entries[k].type = buffers[k].type;
  for (std::size_t k = code.signature.entries.size(); k < buffers.size(); ++k) {
    jit::SignatureEntry entry;
    entry.role = buffers[k].role;
    entry.type = buffers[k].type;
    entry.reads = entry.writes = entry.overwrites_whole = true;
    code.signature.entries.push_back(entry);
  }
}

std::shared_ptr<CodeData> lower_and_optimize(const Program& program, std::string name,
                                             const CompileOptions& options,
                                             const std::shared_ptr<const jit::Compiler>& compiler) {
  auto code = std::make_shared<CodeData>();
  code->name = std::move(name);
  code->options = options;
  code->compiler = compiler;
  code->unoptimized = jit::lower(program);
  code->unoptimized.name = code->name;
  jit::OptimizeOptions optimize_options;
  optimize_options.fast_math = options.fast_math;
  code->lowered = jit::optimize(code->unoptimized, optimize_options);
  code->signature = jit::make_signature(code->lowered.loop);
  // Traced, every assignment is told in the order of the program.
  if (options.schedule == Schedule::automatic && !options.trace_values) {
    code->lowered = jit::schedule(std::move(code->lowered), compiler->target());
    set_scratch_entries(*code);
  }
  return code;
}

/// What the names share at the start, without a trailing '_' (O25): the file name of a batch.
std::string common_prefix(const std::vector<std::string>& names) {
  std::string prefix = names.empty() ? std::string() : names.front();
  for (const std::string& name : names) {
    const auto ends = std::ranges::mismatch(prefix, name);
    prefix.erase(ends.in1, prefix.end());
  }
  while (prefix.ends_with('_')) prefix.pop_back();
  return prefix.empty() ? "batch" : prefix;
}

std::vector<std::string> batch_names(std::span<const Program> programs,
                                     const BatchOptions& options) {
  if (!options.names.empty() && options.names.size() != programs.size()) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("batch of {} programs got {} names (expected one each, or "
                            "none)",
                            programs.size(), options.names.size()));
  }
  std::vector<std::string> names;
  std::set<std::string> seen;
  for (std::size_t k = 0; k < programs.size(); ++k) {
    names.push_back(name_of(programs[k], options.names.empty() ? std::string() : options.names[k]));
    if (!seen.insert(names.back()).second) {
      throw Error(
          ErrorCode::invalid_argument,
          fmt::format(
              "batch entry {} is named '{}' like an earlier one; give each a name of its own "
              "(BatchOptions::names)",
              k, names.back()));
    }
  }
  return names;
}

}  // namespace

namespace jit {

Code compile_program(const Program& program, const CompileOptions& options,
                     const std::shared_ptr<const Compiler>& compiler) {
  auto code = lower_and_optimize(program, name_of(program, options.name), options, compiler);
  code->steps.resize(1);
  if (options.shared) {
    CompileUnit unit{
        symbol(code->name), {kernel_of(*code, symbol(code->name))}, options.trace_values};
    code->steps[0].module = compiler->compile(unit);
  }
  return Code(std::move(code));
}

CodeBatch compile_programs(std::span<const Program> programs, const BatchOptions& options,
                           const std::shared_ptr<const Compiler>& compiler) {
  const std::vector<std::string> names = batch_names(programs, options);
  CompileOptions each;
  each.shared = options.shared;
  each.fast_math = options.fast_math;
  each.schedule = options.schedule;
  each.trace_values = options.trace_values;
  std::vector<std::shared_ptr<CodeData>> codes(programs.size());
  CompileUnit unit{symbol(common_prefix(names)), {}, options.trace_values};
  std::vector<Tensor> all_tensors;
  for (std::size_t k = 0; k < programs.size(); ++k) {
    if (options.occupancy && !options.occupancy(names[k], k)) continue;
    each.name = names[k];
    codes[k] = lower_and_optimize(programs[k], names[k], each, compiler);
    codes[k]->steps.resize(1);
    codes[k]->steps[0].index = unit.kernels.size();
    // Two names may become one symbol ("a b" and "a_b"): the position keeps symbols apart.
    unit.kernels.push_back(kernel_of(*codes[k], fmt::format("{}_{}", symbol(names[k]), k)));
    for (std::size_t entry = 0; entry < codes[k]->lowered.tensors.size(); ++entry) {
      const Role role = codes[k]->signature.entries[entry].role;
      const Tensor& tensor = codes[k]->lowered.tensors[entry];
      if (role == Role::merge || role == Role::scratch) continue;
      if (std::ranges::find(all_tensors, tensor) == all_tensors.end())
        all_tensors.push_back(tensor);
    }
  }
  std::shared_ptr<const Module> module;
  if (options.shared && !unit.kernels.empty()) module = compiler->compile(unit);
  std::vector<std::optional<Code>> entries(programs.size());
  for (std::size_t k = 0; k < programs.size(); ++k) {
    if (!codes[k]) continue;
    codes[k]->steps[0].module = module;
    if (!options.shared) {
      codes[k]->batch_tensors = all_tensors;
      codes[k]->steps[0].index = 0;
    }
    entries[k] = Code(std::move(codes[k]));
  }
  return CodeBatch(std::move(entries));
}

KernelStep specialise(const CodeData& code,
                      std::span<const std::optional<std::uint64_t>> addresses) {
  if (code.steps[0].module) return code.steps[0];
  KernelSource kernel = kernel_of(code, symbol(code.name));
  kernel.addresses.assign(addresses.begin(), addresses.end());
  CompileUnit unit{symbol(code.name), {std::move(kernel)}, code.options.trace_values};
  return KernelStep{code.compiler->compile(unit), 0};
}

}  // namespace jit

const std::string& Code::name() const noexcept { return data_->name; }
bool Code::is_shared() const noexcept { return data_->options.shared; }

std::optional<Tensor> Code::merge_tensor() const {
  if (!data_->signature.merge) return std::nullopt;
  return data_->lowered.tensors[*data_->signature.merge];
}

std::vector<StaticIndex> Code::statics() const { return data_->lowered.statics; }

std::optional<MemoryMode> Code::placement(const Tensor& tensor) const {
  for (const auto& [placed, placement] : data_->lowered.placements) {
    if (placed == tensor) return placement.mode;
  }
  return std::nullopt;
}

std::string Code::unoptimized_text() const {
  const jit::LoopNames names = names_of(data_->unoptimized);
  return jit::print(data_->unoptimized.loop, &names);
}

std::string Code::loop_text() const {
  const jit::LoopNames names = names_of(data_->lowered);
  return jit::print(data_->lowered.loop, &names);
}

std::string Code::hash() const { return jit::hash(data_->lowered.loop); }

std::string Code::source() const {
  const auto& module = data_->steps[0].module;
  return module ? module->source() : std::string();
}

std::chrono::nanoseconds Code::compile_time() const noexcept {
  const auto& module = data_->steps[0].module;
  return module ? module->compile_time() : std::chrono::nanoseconds(0);
}

std::string Code::to_string() const {
  return fmt::format("code {} ({}, {}, {} buffers, {})", name(), data_->compiler->name(),
                     is_shared() ? "shared" : "postponed", data_->signature.entries.size(), hash());
}

std::vector<std::optional<Tensor>> CodeBatch::merge_tensors() const {
  std::vector<std::optional<Tensor>> tensors;
  for (const auto& entry : entries_)
    tensors.push_back(entry ? entry->merge_tensor() : std::nullopt);
  return tensors;
}

}  // namespace heddle
