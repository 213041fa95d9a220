// Batches: several programs compiled in parts, which several threads may compile at once. Any
// thread.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <memory>
#include <mutex>
#include <set>

#include "heddle/status.hpp"
#include "jit/code/code.hpp"
#include "jit/code/kernels.hpp"
#include "jit/code/stages.hpp"
#include "jit/system/inside.hpp"

namespace heddle::jit {
namespace {

/// The largest number of programs in a part. A compile takes some 10 ms before its first kernel,
/// which favours large parts; many processors, and a cache that keeps unchanged parts, favour small
/// parts.
constexpr std::size_t part_programs_max = 4;

/// The common start of the names, without a trailing '_' (O25): the file name of a batch.
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
  if (!options.each.name.empty()) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("the programs of a batch cannot all be named '{}': leave "
                            "BatchOptions::each.name empty, and give BatchOptions::names",
                            options.each.name));
  }
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

/// Divides the programs of a batch into parts whose sizes differ by one at most.
void make_parts(BatchDraft& draft, const std::vector<std::size_t>& positions,
                const std::string& name) {
  const std::size_t count = (positions.size() + part_programs_max - 1) / part_programs_max;
  const auto at = [&](std::size_t part) {
    return positions.begin() + static_cast<std::ptrdiff_t>(positions.size() * part / count);
  };
  for (std::size_t part = 0; part < count; ++part) {
    draft.parts.push_back(
        {count > 1 ? fmt::format("{}_{}", name, part) : name, {at(part), at(part + 1)}});
  }
}

/// A batch in compilation, shared by the compiling threads.
class BatchRun {
 public:
  BatchRun(BatchDraft draft, CompileLimits limits, Spread spread)
      : draft_(std::move(draft)), limits_(std::move(limits)), spread_(std::move(spread)) {
    for (const BatchPart& part : draft_.parts) total_ += part.positions.size();
  }

  [[nodiscard]] BatchDraft& draft() noexcept { return draft_; }

  void compile(std::size_t part) {
    const std::vector<std::size_t>& positions = draft_.parts[part].positions;
    const auto is_known = [this](std::size_t position) {
      return draft_.drafts[position]->code.core != nullptr;
    };
    if (!std::ranges::all_of(positions, is_known)) make_cores(draft_.parts[part]);
    if (draft_.progress) tell(positions);
  }

 private:
  /// Compiles also the programs whose code is known: a part then has the same units in any case.
  void make_cores(const BatchPart& part) {
    std::chrono::nanoseconds spent{};
    for (const std::size_t position : part.positions) spent += draft_.drafts[position]->time;
    const CompileLimits limits = with_own_time(limits_, *draft_.compiler, spent);
    std::vector<Uncompiled> kernels;
    std::deque<std::vector<Step>> known;  // compiled again, and then ignored
    std::vector<Draft*> made;
    for (const std::size_t position : part.positions) {
      Draft& draft = *draft_.drafts[position];
      if (draft.code.core) {
        kernels.push_back({&draft.code, &known.emplace_back(draft.code.core->steps)});
      } else {
        kernels.push_back({&draft.code, &schedule_code(draft, limits)->steps});
        made.push_back(&draft);
      }
    }
    compile_kernels(kernels, part.name, {}, limits, spread_);
    for (Draft* const draft : made) publish(*draft);
  }

  /// Reports the programs that are ready, and programs that become ready meanwhile; returns at once
  /// where a different thread is reporting. The callback runs without the lock, and may block and
  /// compile.
  void tell(const std::vector<std::size_t>& ready) {
    std::unique_lock lock(mutex_);
    untold_.insert(untold_.end(), ready.begin(), ready.end());
    if (telling_) return;
    telling_ = true;  // stays true where the callback throws: no progress is reported afterwards
    while (!untold_.empty()) {
      const std::size_t position = untold_.front();
      untold_.pop_front();
      const CompileProgress progress{++done_, total_, draft_.drafts[position]->code.name};
      lock.unlock();
      draft_.progress(progress);
      lock.lock();
    }
    telling_ = false;
  }

  BatchDraft draft_;
  const CompileLimits limits_;
  const Spread spread_;
  std::mutex mutex_;
  std::deque<std::size_t> untold_;  // guarded by mutex_: ready, and not reported yet
  bool telling_ = false;            // guarded by mutex_: a thread is in tell()
  std::size_t done_ = 0;            // guarded by mutex_
  std::size_t total_ = 0;
};

}  // namespace

BatchDraft draft_programs(std::span<const Program> programs, const BatchOptions& options,
                          const std::shared_ptr<const Compiler>& compiler,
                          const CompileLimits& limits, const std::shared_ptr<Codes>& codes,
                          const KeptChoices& kept) {
  const std::vector<std::string> names = batch_names(programs, options);
  CompileOptions each = options.each;
  BatchDraft draft{compiler, {}, {}, options.progress};
  draft.drafts.resize(programs.size());
  std::vector<std::size_t> positions;
  for (std::size_t k = 0; k < programs.size(); ++k) {
    if (options.occupancy && !options.occupancy(names[k], k)) continue;
    each.name = names[k];
    draft.drafts[k] = draft_code(programs[k], names[k], each, compiler, limits, codes, kept);
    positions.push_back(k);
  }
  if (options.each.shared) make_parts(draft, positions, symbol(common_prefix(names)));
  return draft;
}

BatchDraft draft_choices(const Program& program, CompileOptions options,
                         std::span<const ScheduleChoices> choices,
                         const std::shared_ptr<const Compiler>& compiler,
                         const CompileLimits& limits, const std::shared_ptr<Codes>& codes) {
  const std::string name = name_of(program, options.name);
  BatchDraft draft{compiler, {}, {}, {}};
  for (const ScheduleChoices& each : choices) {
    options.choices = each;
    draft.parts.push_back({symbol(name), {draft.drafts.size()}});
    draft.drafts.emplace_back(draft_code(program, name, options, compiler, limits, codes));
  }
  return draft;
}

CodeBatch finish(BatchDraft draft, const CompileLimits& limits, const Spread& spread) {
  const std::size_t parts = draft.parts.size();
  if (parts == 0) {  // kernels are compiled later (CompileOptions::shared is false)
    for (std::optional<Draft>& each : draft.drafts) {
      if (!each || each->code.core) continue;
      schedule_code(*each, with_own_time(limits, *draft.compiler, each->time));
      publish(*each);
    }
  }
  const auto run = std::make_shared<BatchRun>(std::move(draft), limits, spread);
  run_parts(parts, [run](std::size_t part) { run->compile(part); }, spread, "a batch");
  std::vector<std::optional<Code>> entries;
  for (std::optional<Draft>& each : run->draft().drafts) {
    entries.emplace_back();
    if (each)
      entries.back() = Inside::make<Code>(std::make_shared<const CodeData>(std::move(each->code)));
  }
  return CodeBatch(std::move(entries));
}

}  // namespace heddle::jit
