// Makes a Code from a Program: naming, the stages in order, and specialisation of postponed code.
#include "jit/code/code.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "files/ascii.hpp"
#include "heddle/status.hpp"
#include "jit/cache/program_key.hpp"
#include "jit/code/about.hpp"
#include "jit/code/kernels.hpp"
#include "jit/code/memory_plan.hpp"
#include "jit/code/options.hpp"
#include "jit/code/stages.hpp"
#include "jit/describe/expr.hpp"
#include "jit/describe/program_text.hpp"
#include "jit/emit/emit.hpp"
#include "jit/loop/text.hpp"
#include "jit/lower/stop_checks.hpp"
#include "jit/schedule/choices.hpp"
#include "jit/schedule/contraction.hpp"
#include "jit/schedule/cut.hpp"
#include "jit/schedule/parallel.hpp"
#include "jit/schedule/schedule.hpp"
#include "jit/system/inside.hpp"
#include "jit/system/limits.hpp"
#include "jit/system/process.hpp"

namespace heddle {
namespace {

/// The units with the kernels of a code, each once, in order.
std::vector<const jit::Compiled*> units_of(const jit::CodeData& code) {
  std::vector<const jit::Compiled*> units;
  for (const jit::Step& step : code.core->steps) {
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

LoopNames names_of(const NumberedLoop& numbered, const CodeData& code) {
  LoopNames names;
  for (const std::uint32_t tensor : numbered.tensors)
    names.buffers.push_back(code.tensors[tensor].label());
  for (const std::string& label : numbered.scratch) names.buffers.push_back(label);
  for (const std::uint32_t index : numbered.statics)
    names.statics.push_back(code.statics[index].label());
  return names;
}

std::string symbol(const std::string& name) {
  std::string text;
  for (const char c : name) text += is_letter_or_digit(c) ? c : '_';
  return text.substr(0, 200);
}

const Tensor* CodeData::tensor(std::size_t entry) const noexcept {
  const auto& numbers = core->scheduled.tensors;
  return entry < numbers.size() ? &tensors[numbers[entry]] : nullptr;
}

std::string_view CodeData::label(std::size_t entry) const noexcept {
  const auto& numbers = core->scheduled.tensors;
  return entry < numbers.size() ? tensors[numbers[entry]].label()
                                : core->scheduled.scratch[entry - numbers.size()];
}

std::optional<HostArray> CodeData::host(std::size_t entry) const {
  const auto& numbers = core->scheduled.tensors;
  if (entry >= numbers.size() || numbers[entry] >= wishes.size()) return std::nullopt;
  return wishes[numbers[entry]].host;
}

const StaticIndex& CodeData::static_index(std::size_t k) const noexcept {
  return statics[core->scheduled.statics[k]];
}

namespace {

void require_statements(const Program& program, const std::string& name) {
  const auto assigns = [](const Statement& s) { return Inside::of(s)->target.has_value(); };
  if (std::ranges::any_of(program.statements(), assigns)) return;
  throw Error(ErrorCode::invalid_argument,
              fmt::format("program '{}' has {} and computes nothing; append statements: program << "
                          "(c(i) = a(i))",
                          name, program.empty() ? "no statement" : "comments alone"));
}

/// A trace reports every assignment in the order of the program, hence is not scheduled.
bool is_scheduled(const CompileOptions& options) {
  return options.schedule == Schedule::automatic && !options.trace_values;
}

/// The tensors and static indices of a kernel without scratch of the schedule.
NumberedLoop numbers_of(const Lowered& lowered, const CodeData& code) {
  NumberedLoop numbered;
  std::unordered_map<std::uint64_t, std::uint32_t> places;  // by Tensor::id()
  for (std::uint32_t k = 0; k < code.wishes.size(); ++k) places.emplace(code.tensors[k].id(), k);
  const auto merged = static_cast<std::uint32_t>(code.wishes.size());
  for (BufferId id = 0; id < lowered.tensors.size(); ++id) {
    const bool merges = lowered.loop.buffers[id].role == Role::merge;
    numbered.tensors.push_back(merges ? merged : places.at(lowered.tensors[id].id()));
  }
  for (const StaticIndex& index : lowered.statics) {
    const auto at = std::ranges::find(code.statics, index);
    numbered.statics.push_back(static_cast<std::uint32_t>(at - code.statics.begin()));
  }
  return numbered;
}

std::vector<Wish> wishes_for(const ProgramForm& form) {
  std::vector<Wish> wishes;
  for (const Tensor& tensor : form.tensors) wishes.push_back(wish_of(tensor));
  return wishes;
}

/// A core that is still in use by a code.
std::shared_ptr<const Core> find_core(const Draft& draft) {
  if (!draft.codes) return nullptr;
  std::shared_ptr<const Core> core = draft.codes->find(draft.key);
  if (core && draft.code.options.shared) draft.code.compiler->count_reuse();
  return core;
}

}  // namespace

Draft draft_code(const Program& program, std::string name, const CompileOptions& options,
                 const std::shared_ptr<const Compiler>& compiler, const CompileLimits& limits,
                 const std::shared_ptr<Codes>& codes, const KeptChoices& kept) {
  check(options);
  require_statements(program, name);
  Draft draft;
  CodeData& code = draft.code;
  code.name = std::move(name);
  code.options = options;
  code.compiler = compiler;
  const auto start = std::chrono::steady_clock::now();
  const CompileLimits own = with_own_time(limits, *compiler, {});
  LimitedWork work(code.name, own);
  work.begin("lower");
  ProgramForm form = form_of(program);
  code.wishes = wishes_for(form);
  if (codes && compiler->reuses()) draft.codes = codes;
  draft.key = program_key(form, code.wishes, options);
  if (kept && is_scheduled(options) && options.choices.empty()) {
    if (std::optional<ScheduleChoices> found = kept(draft.key)) {
      code.options.choices = *std::move(found);
      draft.key = program_key(form, code.wishes, code.options);
    }
  }
  code.tensors = std::move(form.tensors);
  if (const auto merged = program.merge_tensor()) code.tensors.push_back(*merged);
  code.statics = std::move(form.statics);
  code.core = find_core(draft);
  if (code.core) return draft;
  if (is_scheduled(options) && options.contraction_tile)
    check_tile(*options.contraction_tile, compiler->target());
  if (is_scheduled(options)) check_choices(options.choices, compiler->target());
  draft.unoptimized = lower(program, code.wishes);
  draft.unoptimized.name = code.name;
  OptimizeOptions optimize_options;
  optimize_options.fast_math = options.fast_math;
  draft.lowered = optimize(draft.unoptimized, optimize_options);
  draft.time = std::chrono::steady_clock::now() - start;
  return draft;
}

std::shared_ptr<Core> schedule_code(Draft& draft, const CompileLimits& limits) {
  CodeData& code = draft.code;
  LimitedWork work(code.name, limits);
  work.begin("schedule");
  auto core = std::make_shared<Core>();
  core->unoptimized = numbers_of(draft.unoptimized, code);
  core->unoptimized.loop = std::move(draft.unoptimized.loop);
  core->scheduled = numbers_of(draft.lowered, code);
  const ScheduleChoices& choices = code.options.choices;
  if (is_scheduled(code.options)) {
    draft.lowered = schedule(std::move(draft.lowered), code.compiler->target(),
                             code.options.schedule_without, code.options.contraction_tile, choices,
                             code.options.fast_math, code.options.unordered_scatters);
  }
  core->scalar_part = longest_scalar_part(draft.lowered, code.compiler->target());
  work.begin("sign");
  core->signature = make_signature(draft.lowered);
  for (const auto& [tensor, placement] : draft.lowered.placements)
    core->placements.push_back(placement.mode);
  for (std::size_t k = core->scheduled.tensors.size(); k < draft.lowered.tensors.size(); ++k)
    core->scheduled.scratch.push_back(draft.lowered.tensors[k].label());
  core->scheduled.loop = std::move(draft.lowered.loop);
  if (core->signature.merge) core->steps.emplace_back(MergeStep{});
  // Traced: one kernel, since the trace numbers the assignments of the whole program.
  const std::size_t nodes_max = code.options.trace_values ? uncut : kernel_nodes_max;
  const Target target = with_choices(code.compiler->target(), choices);
  std::vector<KernelPart> parts =
      cut_kernels(core->scheduled.loop, nodes_max,
                  target.is_gpu() ? ScratchOf::all_parts : ScratchOf::each_part);
  std::vector<std::string> about = about_kernels(core->unoptimized.loop, parts);
  for (std::size_t k = 0; k < parts.size(); ++k) {
    KernelPart& part = parts[k];
    KernelStep kernel{draft.lowered.verified, draft.lowered.lanes, std::move(part.entries),
                      std::move(part.statics), stop_checks(part.loop).any};
    kernel.about = std::move(about[k]);
    kernel.in_groups = target.is_gpu() && has_parallel_loops(part.loop);
    kernel.parts = target.is_gpu() ? 1 : parts_of(part.loop, target.profile.part_bytes);
    if (kernel.parts > 1) plan_own_scratch(part.loop, kernel);
    if (kernel.own_bytes > own_bytes_max) {
      kernel.parts = 1;
      kernel.own = {};
      kernel.own_bytes = 0;
    }
    core->own_bytes = std::max(core->own_bytes, kernel.own_bytes);
    const bool lost_its_marks =
        has_parallel_loops(part.loop) != has_parallel_loops(core->scheduled.loop);
    if (parts.size() > 1 || lost_its_marks) {  // the emitter plans its lanes
      kernel.loop = verified_after("cut", part.loop, {});
      kernel.lanes = nullptr;
    }
    core->steps.emplace_back(std::move(kernel));
  }
  core->scratch = plan_scratch(core->signature, core->steps);
  code.core = core;
  return core;
}

void publish(Draft& draft) {
  if (draft.codes) draft.code.core = draft.codes->adopt(draft.key, draft.code.core);
}

Draft draft_program(const Program& program, const CompileOptions& options,
                    const std::shared_ptr<const Compiler>& compiler, const CompileLimits& limits,
                    const std::shared_ptr<Codes>& codes, const KeptChoices& kept) {
  return draft_code(program, name_of(program, options.name), options, compiler, limits, codes,
                    kept);
}

CompileKey program_key_of(const Program& program, const CompileOptions& options) {
  check(options);
  const ProgramForm form = form_of(program);
  return program_key(form, wishes_for(form), options);
}

Code finish(Draft draft, const CompileLimits& limits, const Spread& spread) {
  CodeData& code = draft.code;
  if (!code.core) code.core = find_core(draft);  // another thread may have made it meanwhile
  if (!code.core) {
    const CompileLimits own = with_own_time(limits, *code.compiler, draft.time);
    const std::shared_ptr<Core> core = schedule_code(draft, own);
    if (code.options.shared) {
      const Uncompiled kernels{&code, &core->steps};
      compile_kernels({&kernels, 1}, symbol(code.name), {}, own, spread);
    }
    publish(draft);
  }
  return Inside::make<Code>(std::make_shared<const CodeData>(std::move(code)));
}

std::vector<Step> specialise(const CodeData& code,
                             std::span<const std::optional<std::uint64_t>> addresses,
                             const Spread& spread) {
  std::vector<Step> steps = code.core->steps;
  if (!code.options.shared) {
    const Uncompiled kernels{&code, &steps};
    compile_kernels({&kernels, 1}, symbol(code.name), addresses, {}, spread);
  }
  return steps;
}

}  // namespace jit

const std::string& Code::name() const noexcept { return state_->name; }
bool Code::is_shared() const noexcept { return state_->options.shared; }

std::optional<Tensor> Code::merge_tensor() const {
  if (!state_->signature().merge) return std::nullopt;
  return state_->tensors.back();
}

std::vector<StaticIndex> Code::statics() const {
  std::vector<StaticIndex> result;
  for (std::size_t k = 0; k < state_->signature().statics.size(); ++k)
    result.push_back(state_->static_index(k));
  return result;
}

std::vector<Tensor> Code::tensors_from_prior() const {
  std::vector<Tensor> result;
  const auto& entries = state_->signature().entries;
  for (std::size_t k = 0; k < entries.size(); ++k) {
    const bool stored =
        entries[k].role != jit::Role::merge && entries[k].role != jit::Role::scratch;
    if (stored && entries[k].reads_before_writing && !state_->host(k))
      result.push_back(*state_->tensor(k));
  }
  return result;
}

std::optional<MemoryMode> Code::placement(const Tensor& tensor) const {
  const auto& placements = state_->core->placements;
  for (std::size_t k = 0; k < placements.size(); ++k) {
    if (state_->tensors[k] == tensor) return placements[k];
  }
  return std::nullopt;
}

std::string Code::unoptimized_text() const {
  const jit::LoopNames names = jit::names_of(state_->core->unoptimized, *state_);
  return jit::print(state_->core->unoptimized.loop, &names);
}

std::string Code::loop_text() const {
  const jit::LoopNames names = jit::names_of(state_->core->scheduled, *state_);
  return jit::print(state_->core->scheduled.loop, &names);
}

std::string Code::hash() const { return jit::hash(state_->core->scheduled.loop); }

std::string Code::source() const {
  std::string text;
  for (const jit::Compiled* unit : units_of(*state_)) text += unit->source;
  return text;
}

std::chrono::nanoseconds Code::compile_time() const noexcept {
  std::chrono::nanoseconds time{0};
  for (const jit::Compiled* unit : units_of(*state_)) time += unit->time;
  return time;
}

std::string Code::to_string() const {
  return fmt::format("code {} ({}, {}, {} buffers, {})", name(), state_->compiler->name(),
                     is_shared() ? "shared" : "postponed", state_->signature().entries.size(),
                     hash());
}

const std::optional<Code>& CodeBatch::operator[](std::size_t k) const {
  if (k < entries_.size()) return entries_[k];
  throw Error(ErrorCode::invalid_argument,
              fmt::format("a code batch has no position {} (expected below {})", k, size()));
}

std::vector<std::optional<Tensor>> CodeBatch::merge_tensors() const {
  std::vector<std::optional<Tensor>> tensors;
  for (const auto& entry : entries_)
    tensors.push_back(entry ? entry->merge_tensor() : std::nullopt);
  return tensors;
}

}  // namespace heddle
