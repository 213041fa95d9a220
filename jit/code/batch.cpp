// Batches: several programs compiled in parts, which several compilers may work at. Any thread.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <deque>
#include <memory>
#include <mutex>
#include <set>

#include "heddle/status.hpp"
#include "jit/code/code.hpp"
#include "jit/code/stages.hpp"

namespace heddle::jit {
namespace {

/// Kernels of one part. A compile takes some 10 ms before its first kernel, so parts should not be
/// small; many processors, and a cache that keeps what did not change, want them not to be large.
constexpr std::size_t part_kernels_max = 4;

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

/// Shares the kernels of a batch out to parts of equal size, give or take one.
void make_parts(BatchDraft& draft, std::vector<KernelSource> kernels,
                const std::vector<std::size_t>& positions, const CompileUnit& like) {
  const std::size_t count = (kernels.size() + part_kernels_max - 1) / part_kernels_max;
  for (std::size_t part = 0; part < count; ++part) {
    const std::size_t begin = kernels.size() * part / count;
    const std::size_t end = kernels.size() * (part + 1) / count;
    CompileUnit unit = like;
    if (count > 1) unit.name += fmt::format("_{}", part);
    draft.positions.emplace_back();
    for (std::size_t k = begin; k < end; ++k) {
      draft.codes[positions[k]]->steps[0].index = k - begin;
      draft.positions.back().push_back(positions[k]);
      unit.kernels.push_back(std::move(kernels[k]));
    }
    draft.parts.push_back(std::move(unit));
  }
}

/// The parts as several threads take them, in order. Those threads share it: one that was asked to
/// stop may go before the others.
class BatchRun {
 public:
  BatchRun(BatchDraft draft, CompileLimits limits)
      : draft_(std::move(draft)), limits_(std::move(limits)), failures_(draft_.parts.size()) {
    for (const auto& positions : draft_.positions) total_ += positions.size();
  }

  /// Compiles parts until none is left or one failed. The parts before that one were taken before,
  /// and end: so the first failure in order is the same whatever the threads do.
  void work() noexcept {
    // relaxed: made before it is known whether there is anything to do; see over().
    working_.fetch_add(1, std::memory_order_relaxed);
    take_parts();
    // release: pairs with the load in over(): what this thread wrote is seen.
    working_.fetch_sub(1, std::memory_order_release);
  }

  /// After a call of work(): nobody is at a part, nor will be, since none is left or one failed.
  [[nodiscard]] bool over() const noexcept {
    // acquire: pairs with the end of work(); others' ends between lie in its release sequence.
    return working_.load(std::memory_order_acquire) == 0;
  }
  /// Once it is over.
  [[nodiscard]] BatchDraft& draft() noexcept { return draft_; }

  void rethrow_first() const {
    for (const std::exception_ptr& failure : failures_) {
      if (failure) std::rethrow_exception(failure);
    }
  }

 private:
  void take_parts() noexcept {
    // relaxed: numbers and a hint; what parts write is published by the end of this call.
    while (!failed_.load(std::memory_order_relaxed)) {
      // relaxed: each thread gets another number, no more (pairs with itself).
      const std::size_t part = next_.fetch_add(1, std::memory_order_relaxed);
      if (part >= draft_.parts.size()) return;
      try {
        compile(part);
      } catch (...) {
        failures_[part] = std::current_exception();
        // relaxed: see above.
        failed_.store(true, std::memory_order_relaxed);
      }
    }
  }

  void compile(std::size_t part) {
    CompileUnit& unit = draft_.parts[part];
    std::chrono::nanoseconds spent{};
    for (const std::size_t position : draft_.positions[part])
      spent += draft_.codes[position]->draft_time;
    const CompileLimits limits = with_own_time(limits_, *draft_.compiler, spent);
    for (std::size_t k = 0; k < unit.kernels.size(); ++k) {
      CodeData& code = *draft_.codes[draft_.positions[part][k]];
      schedule_code(code, limits);
      unit.kernels[k] = kernel_of(code, std::move(unit.kernels[k].name));
    }
    const auto compiled = draft_.compiler->compile(unit, limits);
    for (const std::size_t position : draft_.positions[part])
      draft_.codes[position]->steps[0].unit = compiled;
    if (draft_.progress) tell(draft_.positions[part]);
  }

  /// Tells what is ready now, and what other threads add meanwhile; or leaves it to the thread that
  /// is telling already. The callback runs without the lock: it may take its time, and compile.
  void tell(const std::vector<std::size_t>& ready) {
    std::unique_lock lock(mutex_);
    untold_.insert(untold_.end(), ready.begin(), ready.end());
    if (telling_) return;
    telling_ = true;  // and for ever where the callback throws: nothing is told after that
    while (!untold_.empty()) {
      const std::size_t position = untold_.front();
      untold_.pop_front();
      const CompileProgress progress{++done_, total_, draft_.codes[position]->name};
      lock.unlock();
      draft_.progress(progress);
      lock.lock();
    }
    telling_ = false;
  }

  BatchDraft draft_;
  const CompileLimits limits_;
  std::vector<std::exception_ptr> failures_;
  std::atomic<std::size_t> next_{0};
  std::atomic<bool> failed_{false};
  std::atomic<std::size_t> working_{0};
  std::mutex mutex_;
  std::deque<std::size_t> untold_;  // guarded by mutex_: positions that are ready
  bool telling_ = false;            // guarded by mutex_: a thread is in tell()
  std::size_t done_ = 0;            // guarded by mutex_
  std::size_t total_ = 0;
};

}  // namespace

BatchDraft draft_programs(std::span<const Program> programs, const BatchOptions& options,
                          const std::shared_ptr<const Compiler>& compiler,
                          const CompileLimits& limits) {
  const std::vector<std::string> names = batch_names(programs, options);
  CompileOptions each;
  each.shared = options.shared;
  each.fast_math = options.fast_math;
  each.schedule = options.schedule;
  each.schedule_without = options.schedule_without;
  each.contraction_tile = options.contraction_tile;
  each.merge_mode = options.merge_mode;
  each.trace_values = options.trace_values;
  BatchDraft draft{compiler, {}, {}, {}, options.progress};
  draft.codes.resize(programs.size());
  std::vector<KernelSource> kernels;
  std::vector<std::size_t> positions;
  for (std::size_t k = 0; k < programs.size(); ++k) {
    if (options.occupancy && !options.occupancy(names[k], k)) continue;
    each.name = names[k];
    draft.codes[k] = draft_code(programs[k], names[k], each, compiler, limits);
    // Two names may become one symbol ("a b" and "a_b"): the position keeps symbols apart.
    kernels.emplace_back().name = fmt::format("{}_{}", symbol(names[k]), k);
    positions.push_back(k);
  }
  if (options.shared) {
    make_parts(draft, std::move(kernels), positions,
               CompileUnit{symbol(common_prefix(names)), {}, options.trace_values});
  }
  return draft;
}

CodeBatch finish(BatchDraft draft, const CompileLimits& limits, const Spread& spread) {
  const std::size_t parts = draft.parts.size();
  if (parts == 0) {  // postponed
    for (const auto& code : draft.codes)
      if (code) schedule_code(*code, with_own_time(limits, *code->compiler, code->draft_time));
  }
  const auto run = std::make_shared<BatchRun>(std::move(draft), limits);
  spread(parts, [run] { run->work(); });
  if (!run->over()) {
    throw Error(ErrorCode::cancelled,
                "the task that compiles a batch was asked to stop before all parts were compiled");
  }
  run->rethrow_first();
  std::vector<std::optional<Code>> entries;
  for (auto& code : run->draft().codes)
    entries.push_back(code ? std::optional<Code>(Code(std::move(code))) : std::nullopt);
  return CodeBatch(std::move(entries));
}

}  // namespace heddle::jit
