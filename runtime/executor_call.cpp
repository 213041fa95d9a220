// See executor_call.hpp.
#include "runtime/executor_call.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <mutex>
#include <utility>

#include "jit/system/inside.hpp"
#include "runtime/device_state.hpp"
#include "runtime/execution.hpp"
#include "runtime/executor_record.hpp"
#include "runtime/executor_state.hpp"
#include "runtime/transfer.hpp"
#include "runtime/variable_state.hpp"
#include "scheduler/device/clocks.hpp"
#include "scheduler/observe/log.hpp"
#include "scheduler/protocol/lane.hpp"

namespace heddle::rt {
namespace {}  // namespace

ExecutorCall::ExecutorCall(ExecutorState& executor, const Device& device, Site& site)
    : executor_(executor),
      device_(device),
      execution_(*Inside::of(device)->execution),
      graph_(*site.graph),
      site_(site) {}

std::string ExecutorCall::user() const {
  return fmt::format("executor '{}' on {}", executor_.name(), device_.name());
}

std::string ExecutorCall::name_of(std::size_t k) const {
  if (k >= graph_.num_arguments) {
    return fmt::format("parameter '{}' {}", graph_.parameters[k].name,
                       graph_.parameters[k].type.to_string());
  }
  return fmt::format("argument {} of {}, '{}' {}", k, graph_.num_arguments,
                     graph_.parameters[k].name, graph_.parameters[k].type.to_string());
}

void ExecutorCall::refuse(std::size_t k, ErrorCode code, std::string_view why, Status cause) const {
  throw Error(code, fmt::format("{}: {} {}", user(), name_of(k), why), std::move(cause));
}

void ExecutorCall::take(std::span<const executors::Leaf> leaves,
                        std::span<const std::size_t> first_of) {
  plain_ = executor_.options.donate.empty() && site_.is_plain && graph_.variables.empty();
  for (const executors::Leaf& leaf : leaves) add(leaf.array, leaf.donated);
  if (given_.size() < graph_.parameters.size()) take_others();
  small_ = plain_ && site_.small.has_value();
  if (plain_) return;  // whatever is not as it should be is found where it is submitted
  note_donated(leaves.size(), first_of);
  check_spaces();
  check_states();
  bring(leaves);
}

/// Null: a value of the host, which is to be brought.
void ExecutorCall::add(const Array* array, bool donated) {
  const ArrayState* const state = array != nullptr ? Inside::of(*array).get() : nullptr;
  given_.push_back({state, donated});
  plain_ = plain_ && state != nullptr && !donated &&
           Inside::of(state->view.buffer())->ledger == execution_.ledger;
}

/// Variables, and what the hook sets.
void ExecutorCall::take_others() {
  others_.resize(graph_.parameters.size() - given_.size());
  const std::size_t first = given_.size();
  const auto other = [&](std::size_t k) -> Other& { return others_[k - first]; };
  set_sides(first);
  lock_variables();
  for (const CompiledGraph::VariableUse& use : graph_.variables) {
    for (std::size_t k = 0; k < use.variable->arrays.size(); ++k) {
      const Array& array = use.variable->arrays[k];
      // It is in place where nobody else can find it.
      const auto& state = Inside::of(array);
      const bool alone =
          state.use_count() == 1 && Inside::of(state->view.buffer()).use_count() == 1;
      const bool mine = use.first_result.has_value() && alone;
      other(use.first_parameter + k) = {array, false};
      variable_donated_.push_back(mine);
    }
  }
  for (const Other& each : others_) add(&*each.array, each.donated);
  // Copies were made here, so that only now it is known.
  std::size_t at = 0;
  for (const CompiledGraph::VariableUse& use : graph_.variables) {
    for (std::size_t k = 0; k < use.variable->arrays.size(); ++k)
      given_[use.first_parameter + k].donated = variable_donated_[at++];
  }
}

/// In one order in all calls.
void ExecutorCall::lock_variables() {
  std::vector<VariableState*> variables;
  for (const CompiledGraph::VariableUse& use : graph_.variables)
    variables.push_back(use.variable.get());
  std::ranges::sort(variables, std::less<>());
  for (VariableState* const variable : variables) locks_.emplace_back(variable->mutex);
}

void ExecutorCall::set_sides(std::size_t first) {
  if (graph_.sides.empty()) return;
  SideParameters sides(graph_.traced.graph());
  for (const std::size_t k : graph_.sides)
    sides.slots_.push_back({&graph_.parameters[k].name, &graph_.parameters[k].type});
  if (executor_.options.on_side_parameters) {
    const ExecutorState::UserCode inside(executor_);
    executor_.options.on_side_parameters(sides);
  }
  for (std::size_t at = 0; at < graph_.sides.size(); ++at) {
    const std::size_t k = graph_.sides[at];
    SideParameters::Slot& slot = sides.slots_[at];
    const auto told = [&](std::string_view problem) {
      throw Error(slot.array ? ErrorCode::invalid_argument : ErrorCode::failed_precondition,
                  fmt::format("{}: side parameter {} of {}, '{}' {} of graph '{}', {}", user(), at,
                              graph_.sides.size(), *slot.name, slot.type->to_string(),
                              graph_.traced.name(), problem));
    };
    if (!slot.array)
      told("is not set; set it in ExecutorOptions::on_side_parameters, or make it an argument");
    if (slot.array->type() != *slot.type)
      told("is set to an array " + slot.array->type().to_string());
    others_[k - first] = {std::move(slot.array), slot.donated};
  }
}

void ExecutorCall::note_donated(std::size_t num_leaves, std::span<const std::size_t> first_of) {
  for (const std::size_t argument : executor_.options.donate) {
    if (argument >= first_of.size()) {
      throw Error(
          ErrorCode::invalid_argument,
          fmt::format("{}: ExecutorOptions::donate names argument {}, and it is called with "
                      "{}",
                      user(), argument, first_of.size()));
    }
    const std::size_t end = argument + 1 < first_of.size() ? first_of[argument + 1] : num_leaves;
    for (std::size_t k = first_of[argument]; k < end; ++k) given_[k].donated = true;
  }
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
  for (std::size_t k = 0; k < given_.size(); ++k) {
    const ArrayState* const array = given_[k].array;
    if (array != nullptr) {
      if (reaches(execution_, *Inside::of(array->view.buffer()))) continue;
      const Array& from = k < leaves.size() ? *leaves[k].array : *others_[k - leaves.size()].array;
      made_.push_back(from.copy_to(device, executor_.where));
      // relaxed: a number for people.
      executor_.copies.fetch_add(1, std::memory_order_relaxed);
      if (given_[k].donated) left_.push_back(from);
    } else if (leaves[k].host != nullptr) {
      made_.emplace_back(device, *leaves[k].host, executor_.where);
    } else {
      const executors::Leaf& leaf = leaves[k];
      const std::size_t count = leaf.count < 0 ? 1 : static_cast<std::size_t>(leaf.count);
      made_.push_back(Inside::make<Array>(device, graph_.parameters[k].type, leaf.data, count,
                                          executor_.where));
    }
    given_[k] = {Inside::of(made_.back()).get(), true};
    given_[k].ours = true;
  }
}

/// Pairs each donated argument with a result that may have its memory.
void ExecutorCall::plan_donation() {
  if (plain_) return;
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
    if (gift.result == no_result && !given_[k].ours) tell_in_vain(k);
  }
}

/// Once for each graph.
void ExecutorCall::tell_in_vain(std::size_t k) const {
  // relaxed: whoever is first tells.
  if (graph_.told_in_vain.exchange(true, std::memory_order_relaxed)) return;
  sched::log_made(LogLevel::info, [&] {
    return fmt::format("{}: {} is donated in vain: no result of graph '{}' can have its memory",
                       user(), name_of(k), graph_.traced.name());
  });
}

void ExecutorCall::promise(Gift& gift) const {
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
}

void ExecutorCall::make_results() {
  for (Gift& gift : gifts_) promise(gift);
  {
    const std::lock_guard lock(*execution_.ledger);
    throw_if_failed(whole(*execution_.ledger));
    if (plain_) execution_.ledger->claim();
    if (!small_) record_ = CallRecord::make(site_);
    for (const auto& cells : site_.cells) cells_.push_back(&cells->take());
  }
  for (std::size_t r = 0; r < cells_.size(); ++r) {
    const CompiledGraph::Result& result = graph_.results[r];
    const auto gift = std::ranges::find(gifts_, r, &Gift::result);
    std::shared_ptr<ArrayState> state;
    if (gift == gifts_.end() && !result.zeros) {
      dev::BlockRef block = allocate_block(execution_, result.bytes, result.holder);
      ResultCell& cell = *std::exchange(cells_[r], nullptr);
      ++num_begun_;
      state = cell.begin(device_, result.type, std::move(block), result.bytes);
    } else {
      auto buffer = gift != gifts_.end()
                        ? gift->taker
                        : allocate_zeros(*Inside::of(device_), result.bytes, result.holder.second);
      state = std::make_shared<ArrayState>(ArrayState{
          device_, BufferView(Inside::make<Buffer>(std::move(buffer)), result.type), Event()});
    }
    states_.push_back(state.get());
    arrays_.push_back(std::move(state));
  }
}

void ExecutorCall::fill_tables() {
  std::vector<heddle_kernel_buffer>& entries = record_->tables.entries();
  const jit::CodeData& code = *Inside::of(graph_.code);
  if (const std::size_t bytes = code.core->scratch.bytes; bytes > 0) {
    record_->scratch = execution_.scratch.take(execution_, bytes, site_.scratch_name);
    for (std::size_t e = 0; e < entries.size(); ++e) {
      if (code.signature().entries[e].role != jit::Role::scratch) continue;
      entries[e] = {static_cast<std::byte*>(record_->scratch->data) + code.core->scratch.offsets[e],
                    static_cast<std::uint64_t>(*code.signature().entries[e].type.num_bytes())};
    }
  }
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
  if (!graph_.variables.empty()) keep_updates();
  if (tells_nodes()) keep_marked();
  sink.take(graph_.traced.results(), std::span(arrays_.data(), graph_.num_function_results));
  if (!small_) fill_tables();
  if (!submit_plainly()) submit_carefully();
  if (!graph_.variables.empty()) update_variables();
}

bool ExecutorCall::tells_nodes() const {
  return executor_.options.nan_check || executor_.always_tells ||
         (executor_.options.logger && !graph_.marks.results.empty());
}

void ExecutorCall::keep_marked() {
  for (const std::size_t number : graph_.marks.results)
    marked_.push_back(executors::MakeArray::of(arrays_[number]));
}

void ExecutorCall::keep_updates() {
  for (const CompiledGraph::VariableUse& use : graph_.variables) {
    if (!use.first_result) continue;
    const std::size_t count = use.variable->arrays.size();
    const auto updated =
        std::span(arrays_.data(), arrays_.size()).subspan(*use.first_result, count);
    updates_.push_back({use.variable.get(), executors::MakeArray::all_of(updated)});
  }
}

/// The next calls read what this one leaves. The arrays from before go after the locks.
void ExecutorCall::update_variables() noexcept {
  for (Update& each : updates_) each.variable->arrays.swap(each.arrays);
  locks_.clear();
}

/// What is marked, to the logger; after the call, without a lock.
void ExecutorCall::tell() const {
  if (!tells_nodes()) return;
  const ExecutorState::UserCode inside(executor_);
  executor_.tell(graph_, marked_);
}

void ExecutorCall::submit_carefully() {
  check_states();
  if (small_) {
    const std::lock_guard lock(*execution_.ledger);
    record_ = CallRecord::make(site_);
  }
  if (small_) fill_tables();
  add_accesses(record_->accesses);
  SubmitOptions options;
  options.lists_events = false;
  options.sync = Sync::automatic;
  const Accesses& accesses = record_->accesses;
  const Event event =
      submit(*Inside::of(device_), {site_.label, std::move(record_), accesses}, options);
  for (ArrayState* const state : states_) state->event = event;
  for (const Array& array : left_) {
    try {
      static_cast<void>(array.view().buffer().donate(executor_.where));
    } catch (const Error&) {  // somebody else took it meanwhile
    }
  }
}

/// Where all that it uses is there, of its own device, and nothing is to be waited for. The note of
/// one whose device is disturbed meanwhile makes its task look again before it runs.
bool ExecutorCall::submit_plainly() {
  if (!plain_ || sched::Clocks::on()) return false;
  const DeviceState& device = *Inside::of(device_);
  Ledger& ledger = *execution_.ledger;
  if (!small_) record_->keep(given_.size() + states_.size());
  if (!ledger.try_lock_alone()) return false;
  sched::PlainTicket ticket;
  std::optional<sched::TaskNote> note;
  {
    const std::lock_guard lock(ledger, std::adopt_lock);
    ticket = take_ticket(device, note);
    if (!ticket) return false;
    site_.launches.begin();
  }
  for (ArrayState* const state : states_) state->event = ticket.event();
  if (small_) {
    auto* const call = ::new (ticket.place()) SmallCall{&site_, {}};
    const SmallKernel& kernel = *site_.small;
    for (std::uint32_t k = 0; k < kernel.num_buffers; ++k) {
      const auto& buffer = kernel.buffers[k];
      const BufferView& view =
          buffer.result ? states_[buffer.number]->view : given_[buffer.number].array->view;
      call->data[k] = Inside::of(view.buffer())->data + view.offset();
    }
  } else {
    *static_cast<CallRecord**>(ticket.place()) = record_.release();
  }
  const sched::TaskOps& ops = small_ ? SmallCall::ops : CallRecord::plain_ops;
  const sched::Label label = site_.label;  // first: the task may end at once
  if (note) [[unlikely]] {
    ticket.publish(label, ops, *note);
  } else {
    ticket.publish(label, ops);
  }
  return true;
}

/// Under the ledger.
sched::PlainTicket ExecutorCall::take_ticket(const DeviceState& device,
                                             std::optional<sched::TaskNote>& note) {
  const std::uint64_t disturbances = sched::disturbances(*device.timeline);
  const std::size_t uses = given_.size() + states_.size();
  boost::container::small_vector<Hazards::Record*, 20> records(uses);
  const auto each_use = [&](const auto& f) {
    std::size_t at = 0;
    const auto one = [&](const BufferView& view, std::size_t bytes, Use use) {
      const Range range{view.offset(), view.offset() + bytes};
      return f(at++, *Inside::of(view.buffer()),
               Hazards::Next{site_.timeline, disturbances, range, use, true});
    };
    for (std::size_t k = 0; k < given_.size(); ++k) {
      if (!one(given_[k].array->view, graph_.parameters[k].bytes, Use::read)) return false;
    }
    for (std::size_t r = 0; r < states_.size(); ++r) {
      if (!one(states_[r]->view, graph_.results[r].bytes, Use::overwrite)) return false;
    }
    return true;
  };
  const bool plain = each_use([&](std::size_t at, BufferState& buffer, const Hazards::Next& next) {
    if (buffer.memory == nullptr || may_be_fresh(buffer) || (small_ && buffer.borrowed))
      return false;
    const auto record = buffer.hazards().plain(next, uses);
    if (!record) return false;
    records[at] = *record;
    if (!small_) record_->keep(at, buffer.memory);
    return true;
  });
  if (!plain) return {};
  const sched::PlainTicket ticket(*device.timeline);
  if (!ticket) return {};
  if (sched::disturbed_since(*device.timeline, disturbances)) [[unlikely]] {
    note.emplace();
    each_use([&](std::size_t, BufferState& buffer, const Hazards::Next& next) {
      doubt(buffer.hazards(), next, *note);
      return true;
    });
  }
  each_use([&](std::size_t at, BufferState& buffer, const Hazards::Next& next) {
    buffer.hazards().note_plainly(records[at], ticket.event(), next, false);
    return true;
  });
  return ticket;
}

}  // namespace heddle::rt
