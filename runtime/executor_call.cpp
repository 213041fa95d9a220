// See executor_call.hpp.
#include "runtime/executor_call.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <utility>

#include "jit/system/inside.hpp"
#include "runtime/device_state.hpp"
#include "runtime/execution.hpp"
#include "runtime/executor_record.hpp"
#include "runtime/executor_state.hpp"
#include "runtime/transfer.hpp"

namespace heddle::rt {
namespace {

heddle_kernel_buffer buffer_of(const BufferView& view) {
  return {place_of(view).data, view.num_bytes()};
}

}  // namespace

ExecutorCall::ExecutorCall(ExecutorState& executor, const Device& device, Site& site)
    : executor_(executor),
      device_(device),
      execution_(*Inside::of(device)->execution),
      graph_(*site.graph),
      site_(site) {
  made_.reserve(graph_.parameters.size());
}

std::string ExecutorCall::user() const {
  return fmt::format("executor '{}' on {}", executor_.name(), device_.name());
}

std::string ExecutorCall::name_of(std::size_t k) const {
  return fmt::format("argument {} of {}, '{}' {}", k, given_.size(), graph_.parameters[k].name,
                     graph_.parameters[k].type.to_string());
}

void ExecutorCall::refuse(std::size_t k, ErrorCode code, std::string_view why, Status cause) const {
  throw Error(code, fmt::format("{}: {} {}", user(), name_of(k), why), std::move(cause));
}

void ExecutorCall::take(std::span<const executors::Leaf> leaves,
                        std::span<const std::size_t> first_of) {
  for (const executors::Leaf& leaf : leaves)
    given_.push_back(
        {leaf.array != nullptr ? Inside::of(*leaf.array).get() : nullptr, leaf.donated});
  for (const std::size_t argument : executor_.options.donate) {
    if (argument >= first_of.size()) {
      throw Error(
          ErrorCode::invalid_argument,
          fmt::format("{}: ExecutorOptions::donate names argument {}, and it is called with "
                      "{}",
                      user(), argument, first_of.size()));
    }
    const std::size_t end = argument + 1 < first_of.size() ? first_of[argument + 1] : leaves.size();
    for (std::size_t k = first_of[argument]; k < end; ++k) given_[k].donated = true;
  }
  check_spaces();
  check_states();
  bring(leaves);
}

/// All are where the device finds them, or may be copied.
void ExecutorCall::check_spaces() const {
  if (executor_.options.other_devices == OtherDevices::copy) return;
  for (std::size_t k = 0; k < given_.size(); ++k) {
    const ArrayState* const array = given_[k].array;
    if (array == nullptr || reaches(execution_, *Inside::of(array->view.buffer()))) continue;
    refuse(k, ErrorCode::invalid_argument,
           fmt::format("lies in memory of {}, which it cannot address; copy it with "
                       "Array::copy_to(), or allow copies with ExecutorOptions::other_devices",
                       array->device.name()));
  }
}

void ExecutorCall::check_states() const {
  for (std::size_t k = 0; k < given_.size(); ++k) {
    const ArrayState* const array = given_[k].array;
    if (array == nullptr) continue;
    BufferState& buffer = *Inside::of(array->view.buffer());
    {
      const std::lock_guard lock(*buffer.ledger);
      if (!buffer.memory) refuse(k, ErrorCode::failed_precondition, buffer.absence());
    }
    if (const Status status = array->event.status(); !status.ok())
      refuse(k, ErrorCode::failed_precondition, "did not come", status);
    if (given_[k].donated) check_donation(k, buffer);
  }
}

void ExecutorCall::check_donation(std::size_t k, const BufferState& buffer) const {
  const BufferView& view = given_[k].array->view;
  if (view.num_bytes() != buffer.bytes) {
    refuse(k, ErrorCode::failed_precondition,
           "cannot be donated: it is a part of " + view.buffer().to_string());
  }
  if (buffer.borrowed || !buffer.constant.empty()) {
    refuse(k, ErrorCode::failed_precondition,
           "cannot be donated: that holds a hosted constant, and stays as it is");
  }
  for (std::size_t other = 0; other < given_.size(); ++other) {
    if (other == k || given_[other].array == nullptr ||
        Inside::of(given_[other].array->view.buffer()).get() != &buffer)
      continue;
    refuse(k, ErrorCode::invalid_argument,
           fmt::format("is donated, and is {} too{}; pass a copy of one",
                       fmt::format("argument {}, '{}'", other, graph_.parameters[other].name),
                       given_[other].donated ? ", donated again" : ""));
  }
}

/// Values of the host, and arrays of other devices, come to this one. Nobody else has what is made
/// here: results may lie in its memory.
void ExecutorCall::bring(std::span<const executors::Leaf> leaves) {
  const Device& device = device_;
  for (std::size_t k = 0; k < leaves.size(); ++k) {
    const executors::Leaf& leaf = leaves[k];
    if (leaf.array != nullptr) {
      if (reaches(execution_, *Inside::of(leaf.array->view().buffer()))) continue;
      made_.push_back(leaf.array->copy_to(device, executor_.where));
      // relaxed: a number for people.
      executor_.copies.fetch_add(1, std::memory_order_relaxed);
      if (given_[k].donated) left_.push_back(leaf.array);
    } else if (leaf.host != nullptr) {
      made_.emplace_back(device, *leaf.host, executor_.where);
    } else {
      const std::size_t count = leaf.count < 0 ? 1 : static_cast<std::size_t>(leaf.count);
      made_.push_back(Inside::make<Array>(device, graph_.parameters[k].type, leaf.data, count,
                                          executor_.where));
    }
    given_[k] = {Inside::of(made_.back()).get(), true};
  }
}

/// Pairs each donated argument with a result that may have its memory.
void ExecutorCall::plan_donation() {
  const jit::Signature& signature = Inside::of(graph_.code)->signature();
  for (std::size_t k = 0; k < given_.size(); ++k) {
    if (!given_[k].donated) continue;
    const auto& entry = graph_.parameters[k].entry;
    Gift gift{k, no_result};
    for (std::size_t r = 0; entry && r < graph_.results.size(); ++r) {
      const auto& taker = graph_.results[r].entry;
      if (!taker || graph_.results[r].bytes == 0 || !signature.may_take(*taker, *entry)) continue;
      if (std::ranges::find(gifts_, r, &Gift::result) != gifts_.end()) continue;
      gift.result = r;
      break;
    }
    gifts_.push_back(gift);
  }
}

std::shared_ptr<BufferState> ExecutorCall::promised(Gift& gift) {
  gift.text = gift.result == no_result
                  ? fmt::format(
                        "to executor '{}', where no result fits its memory; pass it without "
                        "donate()",
                        executor_.name())
                  : fmt::format("to executor '{}', where {} has its memory now; use that",
                                executor_.name(), graph_.results[gift.result].name);
  gift.taker = std::make_shared<BufferState>(
      Inside::of(given_[gift.parameter].array->view.buffer()),
      fmt::format("has none until executor '{}' is called", executor_.name()));
  return gift.taker;
}

void ExecutorCall::make_results() {
  states_.reserve(graph_.results.size());
  for (Gift& gift : gifts_) static_cast<void>(promised(gift));
  for (std::size_t r = 0; r < graph_.results.size(); ++r) {
    const CompiledGraph::Result& result = graph_.results[r];
    const auto gift = std::ranges::find(gifts_, r, &Gift::result);
    std::shared_ptr<BufferState> buffer;
    if (gift != gifts_.end()) {
      buffer = gift->taker;
    } else if (result.zeros) {
      buffer = allocate_zeros(*Inside::of(device_), result.bytes, result.holder.second);
    } else {
      buffer = allocate(execution_, result.bytes, result.holder.second);
    }
    states_.push_back(std::make_shared<ArrayState>(ArrayState{
        device_, BufferView(Inside::make<Buffer>(std::move(buffer)), result.type), Event()}));
  }
}

void ExecutorCall::fill_tables(CallRecord& record) const {
  const jit::CodeData& code = *Inside::of(graph_.code);
  record.tables.begin(site_.loaded);
  std::vector<heddle_kernel_buffer>& entries = record.tables.entries();
  if (const std::size_t bytes = code.core->scratch.bytes; bytes > 0) {
    record.scratch = execution_.scratch.take(execution_, bytes, "the scratch of " + user());
    for (std::size_t e = 0; e < entries.size(); ++e) {
      if (code.signature().entries[e].role != jit::Role::scratch) continue;
      entries[e] = {static_cast<std::byte*>(record.scratch->data) + code.core->scratch.offsets[e],
                    static_cast<std::uint64_t>(*code.signature().entries[e].type.num_bytes())};
    }
  }
  for (std::size_t k = 0; k < given_.size(); ++k) {
    if (const auto& entry = graph_.parameters[k].entry)
      entries[*entry] = buffer_of(given_[k].array->view);
  }
  for (std::size_t r = 0; r < states_.size(); ++r) {
    if (const auto& entry = graph_.results[r].entry) entries[*entry] = buffer_of(states_[r]->view);
  }
  record.tables.end(site_.loaded);
}

void ExecutorCall::add_accesses(Accesses& accesses) const {
  accesses.add(*execution_.ledger);
  for (std::size_t k = 0; k < given_.size(); ++k) {
    Access access{&given_[k].array->view, Use::read,
                  k < graph_.lowered.parameters.size() ? &graph_.lowered.parameters[k] : nullptr};
    const auto gift = std::ranges::find(gifts_, k, &Gift::parameter);
    if (gift != gifts_.end()) {
      access.use = Use::change;
      access.taker = gift->taker.get();
      access.taker_text = &gift->text;
    } else if (!graph_.parameters[k].entry) {
      continue;
    }
    accesses.add(access);
  }
  for (std::size_t r = 0; r < states_.size(); ++r) {
    const bool taken = std::ranges::find(gifts_, r, &Gift::result) != gifts_.end();
    if (!taken && graph_.results[r].entry) {
      accesses.add(
          {&states_[r]->view, graph_.results[r].zeros ? Use::change : Use::overwrite, nullptr});
    }
  }
}

void ExecutorCall::run(executors::Sink& sink) {
  plan_donation();
  make_results();
  std::vector<Array> arrays;
  for (const auto& state : states_)
    arrays.push_back(Inside::make<Array>(std::shared_ptr<const ArrayState>(state)));
  sink.take(graph_.traced.results(),
            std::span<const Array>(arrays).first(graph_.lowered.results.size()));
  auto record = CallRecord::make(site_, execution_);
  fill_tables(*record);
  add_accesses(record->accesses);
  SubmitOptions options = without_events({});
  options.site.reset();
  options.sync = Sync::automatic;
  const Accesses& accesses = record->accesses;
  const Event event =
      submit(*Inside::of(device_), {site_.label, std::move(record), accesses}, options);
  for (const auto& state : states_) state->event = event;
  for (const Array* const array : left_) {
    try {
      static_cast<void>(array->view().buffer().donate(executor_.where));
    } catch (const Error&) {  // somebody else took it meanwhile
    }
  }
}

}  // namespace heddle::rt
