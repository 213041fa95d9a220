// See runtime/executor/call.hpp: results and their memory, variables, and the call of the logger.
#include "runtime/executor/call.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <utility>

#include "jit/system/inside.hpp"
#include "runtime/device/allocation.hpp"
#include "runtime/device/device_state.hpp"
#include "runtime/device/execution.hpp"
#include "runtime/executor/state.hpp"
#include "runtime/executor/variable_state.hpp"
#include "runtime/transfer/transfer.hpp"
#include "scheduler/observe/log.hpp"

namespace heddle::rt {

ExecutorCall::ExecutorCall(ExecutorState& executor, const Device& device, Site& site)
    : executor_(executor),
      device_(device),
      execution_(*Inside::of(device)->execution),
      graph_(*site.graph),
      site_(site),
      pairs_(graph_) {}

ExecutorCall::~ExecutorCall() {
  if (num_begun_ == cells_.size()) return;
  const std::lock_guard lock(*execution_.ledger);
  for (std::size_t r = 0; r < cells_.size(); ++r) {
    if (cells_[r] != nullptr) site_.cells[r]->put_back(*cells_[r]);
  }
}

void ExecutorCall::run(executors::Sink& sink) {
  plan_donation();
  make_results();
  for (const CompiledGraph::VariableUse& use : graph_.variables) {
    for (std::size_t k = 0; use.first_result && k < use.variable->types.size(); ++k)
      updates_.push_back(arrays_[*use.first_result + k].copy());
  }
  if (tells_nodes()) keep_marked();
  sink.take(graph_.traced.results(), std::span(arrays_.data(), graph_.num_function_results));
  if (!small_) fill_tables();
  if (!submit_plainly()) submit_carefully();
}

/// Makes the donation plan: pairs each donated argument with a result that may take the memory. The
/// call leaves the fast path where it frees memory, or where an updated variable does not keep its
/// memory (a skipped call must then copy the old value).
void ExecutorCall::plan_donation() {
  // An updated variable keeps its own memory: where the call is skipped, the old value is there.
  const auto is_updated = [&](std::size_t k) {
    const auto& update = graph_.parameters[k].update;
    return given_[k].donated && update && graph_.may_take(*update, k);
  };
  for (std::size_t k = graph_.num_arguments; k < given_.size(); ++k) {
    const auto& update = graph_.parameters[k].update;
    if (!update) continue;
    if (is_updated(k)) {
      pairs_.pair(k, *update);
      add_gift(k, *update);
    } else {
      plain_ = small_ = false;
    }
  }
  for (std::size_t k = 0; k < given_.size(); ++k) {
    if (given_[k].donated && !given_[k].ours && !is_updated(k)) plan_gift(k);
  }
  // Arrays made by this call come last.
  for (std::size_t k = 0; k < given_.size(); ++k) {
    if (given_[k].donated && given_[k].ours && !is_updated(k)) plan_gift(k);
  }
}

void ExecutorCall::add_gift(std::size_t k, std::size_t result) {
  given_[k].gift = static_cast<std::uint32_t>(gifts_.size());
  gifts_.push_back({k, result});
}

void ExecutorCall::plan_gift(std::size_t k) {
  add_gift(k, pairs_.pair(k).value_or(no_result));
  if (gifts_.back().result != no_result) return;
  plain_ = small_ = false;
  if (!given_[k].ours) tell_in_vain(k);
}

/// Logs once for each graph.
void ExecutorCall::tell_in_vain(std::size_t k) const {
  // relaxed: only the first thread to set the flag logs.
  if (graph_.told_in_vain.exchange(true, std::memory_order_relaxed)) return;
  sched::log_made(LogLevel::info, [&] {
    return fmt::format("{}: {} is donated in vain: no result of graph '{}' can have its memory",
                       user(), name_of(k), graph_.traced.name());
  });
}

ResultCell& ExecutorCall::begin_cell(std::size_t result) {
  ++num_begun_;
  return *std::exchange(cells_[result], nullptr);
}

void ExecutorCall::make_results() {
  {
    const std::lock_guard lock(*execution_.ledger);
    throw_if_failed(whole(*execution_.ledger));
    if (plain_) execution_.ledger->claim();
    if (!small_) record_ = CallRecord::make(site_);
    cells_.reserve(site_.cells.size());
    for (const auto& cells : site_.cells) cells_.push_back(&cells->take());
  }
  for (std::size_t r = 0; r < cells_.size(); ++r) {
    const CompiledGraph::Result& result = graph_.results[r];
    const auto giver = pairs_.giver(r);
    std::shared_ptr<ArrayState> state;
    if (giver) {
      state = begin_cell(r).begin_promised(device_, result.type,
                                           Inside::of(given_[*giver].array->view.buffer()));
      gifts_[given_[*giver].gift].taker = Inside::of(state->view.buffer()).get();
    } else if (!result.zeros && !recorded_) {
      dev::BlockRef block = allocate_block(execution_, result.bytes, result.holder);
      state = begin_cell(r).begin(device_, result.type, std::move(block), result.bytes);
    } else {
      auto buffer = allocate_zeros(*Inside::of(device_), result.bytes, result.holder.second);
      state = std::make_shared<ArrayState>(ArrayState{
          device_, BufferView(Inside::make<Buffer>(std::move(buffer)), result.type), Event()});
    }
    states_.push_back(state.get());
    arrays_.push_back(Inside::make<executors::Result>(std::move(state)));
  }
  for (Gift& gift : gifts_) {
    if (gift.result != no_result) continue;
    // No result takes the memory.
    gift.nobody = std::make_shared<BufferState>(
        Inside::of(given_[gift.parameter].array->view.buffer()), std::string());
    gift.taker = gift.nobody.get();
  }
}

void ExecutorCall::fill_tables() {
  std::vector<heddle_kernel_buffer>& entries = record_->tables.entries();
  for (std::size_t k = 0; k < given_.size(); ++k) {
    const BufferView& view = given_[k].array->view;
    if (const auto& entry = graph_.parameters[k].entry)
      entries[*entry] = {Inside::of(view.buffer())->data + view.offset(),
                         graph_.parameters[k].bytes};
  }
  for (std::size_t r = 0; r < states_.size(); ++r) {
    if (const auto& entry = graph_.results[r].entry)
      entries[*entry] = {Inside::of(states_[r]->view.buffer())->data, graph_.results[r].bytes};
  }
  record_->tables.end(site_.loaded);
}

bool ExecutorCall::tells_nodes() const {
  return executor_.options.nan_check || executor_.always_tells ||
         (executor_.options.logger && !graph_.marks.results.empty());
}

void ExecutorCall::keep_marked() {
  for (const std::size_t number : graph_.marks.results) marked_.push_back(arrays_[number].copy());
}

/// For a skipped call: plans how variables get their old values back.
void ExecutorCall::keep_values() {
  for (const CompiledGraph::VariableUse& use : graph_.variables) {
    for (std::size_t k = 0; use.first_result && k < use.variable->types.size(); ++k)
      keep_value(*use.variable, use.first_parameter + k, *use.first_result + k);
  }
}

void ExecutorCall::keep_value(VariableState& variable, std::size_t parameter, std::size_t result) {
  const Given& given = given_[parameter];
  CallRecord::Kept kept{&variable, given.array->event, given.ours, {}};
  if (pairs_.giver(result) != parameter) {
    kept.move = plan_move(execution_, place_of(given.array->view), place_of(states_[result]->view),
                          graph_.results[result].bytes, "update");
  }
  record_->kept.push_back(std::move(kept));
}

/// At the moment of acceptance: checks that the variables are unchanged since the call read them.
bool ExecutorCall::hold() noexcept {
  for (Seen& each : seen_) each.lock = each.variable->mutex.lock_or_fork();
  const bool same = std::ranges::all_of(seen_, [](const Seen& each) {
    return each.lock.owns_lock() && each.variable->changes == each.changes &&
           (!each.donated || each.variable->looks == each.looks);
  });
  if (!same) release(nullptr);
  return same;
}

bool ExecutorCall::is_outdated() noexcept {
  release(nullptr);  // drops locks that a refused call still holds
  if (!hold()) return true;
  bool same = true;
  for (const Seen& each : seen_) same = !each.variable->recall() && same;
  release(nullptr);
  return !same;
}

/// Installs the new arrays of variables, for later calls to read. The old arrays are destroyed
/// later, without a lock.
void ExecutorCall::release(const Event* taken) noexcept {
  if (taken != nullptr) {
    for (ArrayState* const state : states_) state->event = *taken;
    arrays_.clear();  // leaves the variables as the only owners, for the next call
    auto updated = updates_.begin();
    for (const CompiledGraph::VariableUse& use : graph_.variables) {
      if (!use.first_result) continue;
      std::vector<Array>& arrays = use.variable->arrays;
      updated = std::swap_ranges(arrays.begin(), arrays.end(), updated);
      ++use.variable->changes;
    }
  }
  for (Seen& each : seen_) each.lock = {};
}

/// Passes the marked nodes to the logger; after the call, without a lock.
void ExecutorCall::tell() const {
  if (!tells_nodes()) return;
  const ExecutorState::UserCode inside(executor_);
  executor_.tell(graph_, marked_);
}

}  // namespace heddle::rt
