// From Program to Code: naming, the stages in order, and specialisation of postponed code.
#include "jit/code/code.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <limits>

#include "heddle/status.hpp"
#include "jit/code/kernels.hpp"
#include "jit/code/stages.hpp"
#include "jit/describe/expr.hpp"
#include "jit/describe/program_text.hpp"
#include "jit/loop/text.hpp"
#include "jit/lower/passes.hpp"
#include "jit/lower/stop_checks.hpp"
#include "jit/schedule/cut.hpp"
#include "jit/schedule/schedule.hpp"
#include "jit/system/limits.hpp"
#include "jit/system/process.hpp"

namespace heddle {
namespace {

/// That hold the kernels of a code: each once, in order.
std::vector<const jit::Compiled*> units_of(const jit::CodeData& code) {
  std::vector<const jit::Compiled*> units;
  for (const jit::Step& step : code.steps) {
    const auto* const kernel = std::get_if<jit::KernelStep>(&step);
    if (kernel == nullptr || !kernel->unit) continue;
    if (std::ranges::find(units, kernel->unit.get()) == units.end())
      units.push_back(kernel->unit.get());
  }
  return units;
}

}  // namespace

namespace jit {

std::string name_of(const Program& program, const std::string& asked) {
  if (!asked.empty()) return asked;
  if (!program.name().empty()) return program.name();
  std::string name = name_from_comments(program);
  if (name.empty()) {
    throw Error(
        ErrorCode::invalid_argument,
        fmt::format(
            "program has no name and no comments to make one from; name it: Program(\"name\") "
            "or CompileOptions::name. It begins:\n{}",
            print_program(program, 200)));
  }
  return name;
}

CompileLimits with_own_time(CompileLimits limits, const Compiler& compiler,
                            std::chrono::nanoseconds spent) {
  if (const auto own = compiler.timeout()) {
    const Deadline end = deadline_after(*own) - spent;
    limits.deadline = limits.deadline ? std::min(*limits.deadline, end) : end;
  }
  return limits;
}

LoopNames names_of(const Lowered& lowered) {
  LoopNames names;
  for (const Tensor& tensor : lowered.tensors) names.buffers.push_back(tensor.label());
  for (const StaticIndex& index : lowered.statics) names.statics.push_back(index.label());
  return names;
}

std::string symbol(const std::string& name) {
  std::string text;
  for (const char c : name) text += std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
  return text.substr(0, 200);
}

namespace {

void require_statements(const Program& program, const std::string& name) {
  const auto assigns = [](const Statement& s) { return s.node().target.has_value(); };
  if (std::ranges::any_of(program.statements(), assigns)) return;
  throw Error(ErrorCode::invalid_argument,
              fmt::format("program '{}' has {} and computes nothing; append statements: program << "
                          "(c(i) = a(i))",
                          name, program.empty() ? "no statement" : "comments alone"));
}

/// Per buffer, what its tensor's wish says; `wishes` are of the placements' tensors.
std::vector<std::optional<HostArray>> hosts_of(const Lowered& lowered,
                                               std::span<const Wish> wishes) {
  std::vector<std::optional<HostArray>> hosts(lowered.tensors.size());
  const TensorBuffers buffers(lowered);
  for (std::size_t k = 0; k < wishes.size(); ++k) {
    if (wishes[k].host) hosts[buffers[lowered.placements[k].first]] = wishes[k].host;
  }
  return hosts;
}

/// Traced, every assignment is told in the order of the program.
bool is_scheduled(const CodeData& code) {
  return code.options.schedule == Schedule::automatic && !code.options.trace_values;
}

}  // namespace

std::shared_ptr<CodeData> draft_code(const Program& program, std::string name,
                                     const CompileOptions& options,
                                     const std::shared_ptr<const Compiler>& compiler,
                                     const CompileLimits& limits) {
  require_statements(program, name);
  auto code = std::make_shared<CodeData>();
  code->name = std::move(name);
  code->options = options;
  code->compiler = compiler;
  const auto start = std::chrono::steady_clock::now();
  const CompileLimits own = with_own_time(limits, *compiler, {});
  LimitedWork work(code->name, own);
  if (is_scheduled(*code) && options.contraction_tile)
    check_tile(*options.contraction_tile, compiler->target());
  work.begin("lower");
  const std::vector<Wish> wishes = wishes_of(program);
  code->unoptimized = lower(program, wishes);
  code->unoptimized.name = code->name;
  OptimizeOptions optimize_options;
  optimize_options.fast_math = options.fast_math;
  code->lowered = optimize(code->unoptimized, optimize_options);
  code->hosts = hosts_of(code->lowered, wishes);
  code->draft_time = std::chrono::steady_clock::now() - start;
  return code;
}

void schedule_code(CodeData& code, const CompileLimits& limits) {
  LimitedWork work(code.name, limits);
  work.begin("schedule");
  if (is_scheduled(code)) {
    code.lowered = schedule(std::move(code.lowered), code.compiler->target(),
                            code.options.schedule_without, code.options.contraction_tile);
  }
  work.begin("sign");
  code.signature = make_signature(code.lowered);
  code.hosts.resize(code.signature.entries.size());
  if (code.signature.merge) code.steps.emplace_back(MergeStep{});
  // Traced, a kernel numbers the assignments of the whole program.
  const std::size_t nodes_max =
      code.options.trace_values ? std::numeric_limits<std::size_t>::max() : kernel_nodes_max;
  std::vector<KernelPart> parts = cut_kernels(code.lowered.loop, nodes_max);
  for (KernelPart& part : parts) {
    KernelStep kernel{code.lowered.verified, code.lowered.lanes, std::move(part.entries),
                      std::move(part.statics), stop_checks(part.loop).any};
    if (parts.size() > 1) {  // who emits plans its lanes
      kernel.loop = verified_after("cut", part.loop, {});
      kernel.lanes = nullptr;
    }
    code.steps.emplace_back(std::move(kernel));
  }
}

Draft draft_program(const Program& program, const CompileOptions& options,
                    const std::shared_ptr<const Compiler>& compiler, const CompileLimits& limits) {
  return {draft_code(program, name_of(program, options.name), options, compiler, limits)};
}

Code finish(Draft draft, const CompileLimits& limits, const Spread& spread) {
  CodeData& code = *draft.code;
  const CompileLimits own = with_own_time(limits, *code.compiler, code.draft_time);
  schedule_code(code, own);
  if (code.options.shared) {
    const Uncompiled kernels{&code, &code.steps};
    compile_kernels({&kernels, 1}, symbol(code.name), {}, own, spread);
  }
  return Code(std::move(draft.code));
}

std::vector<Step> specialise(const CodeData& code,
                             std::span<const std::optional<std::uint64_t>> addresses,
                             const Spread& spread) {
  std::vector<Step> steps = code.steps;
  if (!code.options.shared) {
    const Uncompiled kernels{&code, &steps};
    compile_kernels({&kernels, 1}, symbol(code.name), addresses, {}, spread);
  }
  return steps;
}

}  // namespace jit

const std::string& Code::name() const noexcept { return data_->name; }
bool Code::is_shared() const noexcept { return data_->options.shared; }

std::optional<Tensor> Code::merge_tensor() const {
  if (!data_->signature.merge) return std::nullopt;
  return data_->lowered.tensors[*data_->signature.merge];
}

std::vector<StaticIndex> Code::statics() const { return data_->lowered.statics; }

std::vector<Tensor> Code::tensors_from_prior() const {
  std::vector<Tensor> result;
  for (std::size_t k = 0; k < data_->signature.entries.size(); ++k) {
    const jit::SignatureEntry& entry = data_->signature.entries[k];
    const bool stored = entry.role != jit::Role::merge && entry.role != jit::Role::scratch;
    if (stored && entry.reads_before_writing && !data_->hosts[k])
      result.push_back(data_->lowered.tensors[k]);
  }
  return result;
}

std::optional<MemoryMode> Code::placement(const Tensor& tensor) const {
  for (const auto& [placed, placement] : data_->lowered.placements) {
    if (placed == tensor) return placement.mode;
  }
  return std::nullopt;
}

std::string Code::unoptimized_text() const {
  const jit::LoopNames names = jit::names_of(data_->unoptimized);
  return jit::print(data_->unoptimized.loop, &names);
}

std::string Code::loop_text() const {
  const jit::LoopNames names = jit::names_of(data_->lowered);
  return jit::print(data_->lowered.loop, &names);
}

std::string Code::hash() const { return jit::hash(data_->lowered.loop); }

std::string Code::source() const {
  std::string text;
  for (const jit::Compiled* unit : units_of(*data_)) text += unit->source;
  return text;
}

std::chrono::nanoseconds Code::compile_time() const noexcept {
  std::chrono::nanoseconds time{0};
  for (const jit::Compiled* unit : units_of(*data_)) time += unit->time;
  return time;
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
