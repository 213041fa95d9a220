// See runtime/executor/call.hpp: arguments, memory of results, launch, and what loggers are told.
#include "runtime/executor/call.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <functional>
#include <iterator>
#include <mutex>
#include <new>
#include <utility>

#include "jit/system/inside.hpp"
#include "runtime/device/allocation.hpp"
#include "runtime/device/device_state.hpp"
#include "runtime/device/execution.hpp"
#include "runtime/door/fast_path.hpp"
#include "runtime/executor/state.hpp"
#include "runtime/executor/variable_state.hpp"
#include "runtime/replay/recording.hpp"
#include "runtime/transfer/transfer.hpp"
#include "scheduler/device/clocks.hpp"
#include "scheduler/observe/log.hpp"
#include "scheduler/protocol/lane.hpp"

namespace heddle::rt {

std::string ExecutorCall::user() const {
  return fmt::format("executor '{}' on {}", executor_.name(), device_.name());
}

namespace {

/// The value of a number given by the host, for messages; otherwise empty.
std::string value_of(const executors::Leaf& leaf) {
  if (leaf.data == nullptr || leaf.count >= 0) return "";
  return " = " + render_array({leaf.dtype, {}}, leaf.data);
}

}  // namespace

std::string ExecutorCall::name_of(std::size_t k) const {
  if (k >= graph_.num_arguments) {
    return fmt::format("parameter '{}' {}", graph_.parameters[k].name,
                       graph_.parameters[k].type.to_string());
  }
  return fmt::format("argument {} of {}, '{}' {}{}", k, graph_.num_arguments,
                     graph_.parameters[k].name, graph_.parameters[k].type.to_string(),
                     value_of(leaves_[k]));
}

void ExecutorCall::refuse(std::size_t k, ErrorCode code, std::string_view why, Status cause) const {
  throw Error(code, fmt::format("{}: {} {}", user(), name_of(k), why), std::move(cause));
}

void ExecutorCall::take(std::span<const executors::Leaf> leaves,
                        std::span<const std::size_t> first_of) {
  leaves_ = leaves;
  plain_ = site_.is_plain;
  for (const executors::Leaf& leaf : leaves) add(leaf.array, leaf.donated);
  note_donated(leaves.size(), first_of);
  if (given_.size() < graph_.parameters.size()) take_others();
  small_ = plain_ && site_.small.has_value();
  // The fast path needs no checks here: submit_plainly() finds arguments that do not fit.
  for (std::size_t k = 0; plain_ && k < given_.size(); ++k)
    plain_ = !given_[k].donated || is_plain_gift(k);
  small_ = small_ && plain_;
  if (plain_) return;
  check_spaces();
  check_states();
  bring();
}

/// Null: a host value, to be converted by bring().
void ExecutorCall::add(const Array* array, bool donated) {
  const ArrayState* const state = array != nullptr ? Inside::of(*array).get() : nullptr;
  given_.push_back({state, donated});
  plain_ = plain_ && state != nullptr &&
           Inside::of(state->view.buffer())->ledger == execution_.ledger && !state->is_awaited();
}

/// Adds the variables, and the arrays that the hook sets.
void ExecutorCall::take_others() {
  others_.resize(graph_.parameters.size() - given_.size());
  set_sides(given_.size());
  see_variables();
  for (const Other& each : others_) add(&*each.array, each.donated);
}

/// Reads the arrays of all variables at one moment: the locks are held together, without a wait in
/// between. hold() compares at the launch.
void ExecutorCall::see_variables() {
  boost::container::small_vector<Seen, 2> seen;
  for (const CompiledGraph::VariableUse& use : graph_.variables)
    seen.push_back({.variable = use.variable.get()});
  std::ranges::sort(seen, std::less<>(), &Seen::variable);
  for (Seen& each : seen) {
    each.lock = each.variable->lock();
    static_cast<void>(each.variable->recall());
    each.changes = each.variable->changes;
    each.looks = each.variable->looks;
  }
  for (const CompiledGraph::VariableUse& use : graph_.variables) {
    for (std::size_t k = 0; k < use.variable->arrays.size(); ++k) {
      const Array& array = use.variable->arrays[k];
      // The update is in place where no other handle can reach the array.
      const auto& state = Inside::of(array);
      const auto& buffer = Inside::of(state->view.buffer());
      const bool alone = state.use_count() == 1 && buffer.use_count() == 1;
      const bool whole = array.num_bytes() == buffer->bytes;
      const std::size_t parameter = use.first_parameter + k;
      const bool donated = use.first_result && graph_.may_take(*use.first_result + k, parameter) &&
                           alone && whole && !buffer->borrowed && buffer->constant.empty();
      others_[parameter - given_.size()] = {array, donated};
      if (donated) std::ranges::find(seen, use.variable.get(), &Seen::variable)->donated = true;
    }
  }
  for (Seen& each : seen) each.lock = {};
  seen_ = std::move(seen);
}

void ExecutorCall::set_sides(std::size_t first) {
  if (graph_.sides.empty()) return;
  SideParameters sides(graph_.traced.graph());
  for (const std::size_t k : graph_.sides)
    sides.slots_.push_back({&graph_.parameters[k].name, &graph_.parameters[k].type});
  if (executor_.options.on_side_parameters) ask_hook(sides);
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

void ExecutorCall::ask_hook(SideParameters& sides) const {
  const ExecutorState::UserCode inside(executor_);
  try {
    executor_.options.on_side_parameters(sides);
  } catch (...) {
    const Status cause = executors::caught();
    throw Error(Status(cause.code(),
                       fmt::format("{}: the hook of its side parameters failed, for graph '{}'",
                                   user(), graph_.traced.name()),
                       cause)
                    .with_exception(std::current_exception()));
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

/// Tells whether a donated argument is a whole buffer, given once.
bool ExecutorCall::is_plain_gift(std::size_t k) {
  const BufferView& view = given_[k].array->view;
  const BufferState& buffer = *Inside::of(view.buffer());
  return graph_.parameters[k].bytes == buffer.bytes && num_given(buffer) == 1;
}

/// Arguments must lie in memory that the device reaches, or be allowed to be copied.
void ExecutorCall::check_spaces() const {
  if (executor_.options.other_devices == OtherDevices::copy) return;
  for (std::size_t k = 0; k < given_.size(); ++k) {
    const ArrayState* const array = given_[k].array;
    if (array == nullptr || reaches(execution_, *Inside::of(array->view.buffer()))) continue;
    refuse(k, ErrorCode::invalid_argument,
           fmt::format("lies in memory of {}, which {} cannot address; copy it with "
                       "Array::copy_to(), or allow copies with ExecutorOptions::other_devices",
                       array->device.name(), device_.name()));
  }
}

void ExecutorCall::check_states() {
  for (std::size_t k = 0; k < given_.size(); ++k) {
    const ArrayState* const array = given_[k].array;
    if (array == nullptr) continue;
    BufferState& buffer = *Inside::of(array->view.buffer());
    {
      const std::lock_guard lock(*buffer.ledger);
      if (!buffer.memory) refuse(k, ErrorCode::failed_precondition, buffer.absence());
    }
    if (const Status status = array->event.status(); !status.ok())
      refuse(k, ErrorCode::failed_precondition,
             "did not come: what should have filled it failed; make it anew", status);
    if (given_[k].donated) check_donation(k, buffer);
  }
}

void ExecutorCall::check_donation(std::size_t k, const BufferState& buffer) {
  const BufferView& view = given_[k].array->view;
  if (view.num_bytes() != buffer.bytes) {
    refuse(k, ErrorCode::failed_precondition,
           "cannot be donated: it is a part of a " + view.buffer().to_string() +
               "; pass it without donate()");
  }
  if (buffer.borrowed || !buffer.constant.empty()) {
    refuse(k, ErrorCode::failed_precondition,
           "cannot be donated: it is a hosted constant, which stays as it is; pass it without "
           "donate()");
  }
  for (std::size_t other = 0; num_given(buffer) > 1 && other < given_.size(); ++other) {
    if (other == k || given_[other].array == nullptr ||
        Inside::of(given_[other].array->view.buffer()).get() != &buffer)
      continue;
    refuse(k, ErrorCode::invalid_argument,
           fmt::format("is donated, and is {} too{}; pass a copy() of one", name_of(other),
                       given_[other].donated ? ", donated again" : ""));
  }
}

/// Converts host values, and copies arrays of other devices. Only the call has the new arrays,
/// hence results may take their memory.
void ExecutorCall::bring() {
  for (std::size_t k = 0; k < given_.size(); ++k) {
    const ArrayState* const array = given_[k].array;
    if (array != nullptr && reaches(execution_, *Inside::of(array->view.buffer()))) continue;
    try {
      made_.push_back(brought(k));
    } catch (const Error& error) {
      refuse(k, error.code(), "cannot be copied there", error.status());
    }
    given_[k] = {Inside::of(made_.back()).get(), true, true};
    buffers_.clear();
  }
}

Array ExecutorCall::brought(std::size_t k) {
  if (given_[k].array != nullptr) {
    const Array& from = k < leaves_.size() ? *leaves_[k].array : *others_[k - leaves_.size()].array;
    if (given_[k].donated) left_.push_back(from);
    executor_.copies.add();
    return from.copy_to(device_, executor_.where);
  }
  const executors::Leaf& leaf = leaves_[k];
  if (leaf.host != nullptr) return {device_, *leaf.host, executor_.where};
  const std::size_t count = leaf.count < 0 ? 1 : static_cast<std::size_t>(leaf.count);
  return Inside::make<Array>(device_, graph_.parameters[k].type, leaf.data, count, executor_.where);
}

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

/// Tries the fast path: the values of every buffer are present, on the device itself, and there is
/// nothing to wait for.
bool ExecutorCall::submit_plainly() {
  if (!plain_ || sched::Clocks::on() || (!seen_.empty() && !hold())) return false;
  if (rt::submit_plainly(*Inside::of(device_), *this)) return true;
  release(nullptr);
  return false;
}

const sched::TaskOps& ExecutorCall::ops() const noexcept {
  return small_ ? SmallCall::ops : CallRecord::plain_ops;
}

/// The task is built first: once the variables have their new arrays, another thread may replace
/// these, and free them.
sched::Label ExecutorCall::put(void* place, const Event& event) {
  if (small_) {
    put_small(place);
  } else {
    *static_cast<CallRecord**>(place) = record_.release();
  }
  for (ArrayState* const state : states_) state->event = event;
  if (!seen_.empty()) release(&event);
  return site_.label;
}

void ExecutorCall::put_small(void* place) const noexcept {
  auto* const call = ::new (place) SmallCall{&site_, {}};
  const SmallBuffers& small = *site_.small;
  for (std::uint32_t k = 0; k < small.num_buffers; ++k) {
    const auto& buffer = small.buffers[k];
    const BufferView& view =
        buffer.result ? states_[buffer.number]->view : given_[buffer.number].array->view;
    call->data[k] = Inside::of(view.buffer())->data + view.offset();
  }
}

const std::string& ExecutorCall::text_of(const Gift& gift) const {
  return gift.result == no_result ? site_.freed_text : site_.taken_texts[gift.result];
}

/// How many arguments lie in the buffer.
std::size_t ExecutorCall::num_given(const BufferState& buffer) {
  const auto buffer_of = [](const Given& each) -> const BufferState* {
    return each.array != nullptr ? Inside::of(each.array->view.buffer()).get() : nullptr;
  };
  if (given_.size() <= 16)
    return static_cast<std::size_t>(std::ranges::count(given_, &buffer, buffer_of));
  if (buffers_.empty()) {
    buffers_.reserve(given_.size());
    std::ranges::transform(given_, std::back_inserter(buffers_), buffer_of);
    std::ranges::sort(buffers_, std::less<>());
  }
  return std::ranges::equal_range(buffers_, &buffer, std::less<>()).size();
}

bool ExecutorCall::look(PlainUses& uses) {
  const auto add = [&](const BufferView& view, std::size_t bytes, Use use) {
    BufferState& buffer = *Inside::of(view.buffer());
    if (!is_there(buffer) || buffer.borrowed) return false;
    // The task does not keep memory alive. Memory of another device could go with that device.
    if (buffer.memory->timeline() != site_.timeline) return false;
    if (use == Use::change && !buffer.may_be_handed_over()) return false;
    const Hazards::Next next{
        site_.timeline, uses.disturbances(), {view.offset(), view.offset() + bytes}, use, true};
    auto record = buffer.hazards().plain(next, 1);
    // At the first use of a buffer, each read of the buffer may need one record more.
    if (record && *record == nullptr && use == Use::read)
      record = buffer.hazards().plain(next, num_given(buffer));
    if (!record) return false;
    uses.add(buffer.hazards(), *record, next, buffer.memory.get());
    return true;
  };
  for (std::size_t k = 0; k < given_.size(); ++k) {
    const Use use = given_[k].donated ? Use::change : Use::read;
    if (!add(given_[k].array->view, graph_.parameters[k].bytes, use)) return false;
  }
  for (std::size_t r = 0; r < states_.size(); ++r) {
    if (!pairs_.giver(r) && !add(states_[r]->view, graph_.results[r].bytes, Use::overwrite))
      return false;
  }
  for (const Gift& gift : gifts_) giver(gift).prepare_hand_over(text_of(gift), {});
  return true;
}

void ExecutorCall::accepted(const Event& /*event*/) {
  for (const Gift& gift : gifts_) giver(gift).hand_over(*gift.taker, {});
  site_.launches.begin();
}

BufferState& ExecutorCall::giver(const Gift& gift) const {
  return *Inside::of(given_[gift.parameter].array->view.buffer());
}

void ExecutorCall::submit_carefully() {
  check_states();
  if (small_) {
    const std::lock_guard lock(*execution_.ledger);
    record_ = CallRecord::make(site_);
  }
  if (small_) fill_tables();
  keep_values();
  add_accesses(record_->accesses);
  SubmitOptions options;
  options.lists_events = false;
  options.sync = Sync::automatic;
  for (const Given& each : given_) {
    if (each.array->is_awaited()) options.after.push_back(each.array->event);
  }
  const Accesses& accesses = record_->accesses;
  Work work{site_.label, std::move(record_), accesses};
  if (!seen_.empty()) work.condition = this;
  const Event event = submit(*Inside::of(device_), std::move(work), options);
  // With variables, release() has set the events already, and other threads may have the results.
  for (std::size_t r = 0; seen_.empty() && r < states_.size(); ++r) states_[r]->event = event;
  for (const Array& array : left_) {
    try {
      static_cast<void>(array.view().buffer().donate(executor_.where));
    } catch (...) {  // another thread took the buffer meanwhile, or memory for the note is missing
    }
  }
}

void ExecutorCall::add_accesses(Accesses& accesses) const {
  accesses.add(*execution_.ledger);
  for (std::size_t k = 0; k < given_.size(); ++k) {
    Access access{&given_[k].array->view, Use::read,
                  k < graph_.lowered.parameters.size() ? &graph_.lowered.parameters[k] : nullptr};
    if (given_[k].donated) {
      const Gift& gift = gifts_[given_[k].gift];
      access.use = Use::change;
      access.taker = gift.taker;
      access.taker_text = &text_of(gift);
    } else if (!graph_.parameters[k].entry && !graph_.parameters[k].update) {
      continue;
    }
    accesses.add(access);
  }
  for (std::size_t r = 0; r < states_.size(); ++r) {
    if (!pairs_.giver(r) && graph_.results[r].entry) {
      accesses.add(
          {&states_[r]->view, graph_.results[r].zeros ? Use::change : Use::overwrite, nullptr});
    }
  }
}

void ExecutorCall::record(RecordingState& recording, executors::Sink& sink) {
  for (const CompiledGraph::VariableUse& use : graph_.variables) {
    if (!use.first_result) continue;
    throw Error(
        ErrorCode::invalid_argument,
        fmt::format("{}: a recording cannot have a call that updates variable '{}'; take and "
                    "give it as an array",
                    user(), use.variable->name));
  }
  for (std::size_t k = 0; k < given_.size(); ++k) {
    if (given_[k].donated && !given_[k].ours)
      refuse(k, ErrorCode::invalid_argument,
             "cannot be donated to a call that is recorded, as a run would take it once; pass it "
             "without donate()");
    given_[k].donated = false;
  }
  check_states();
  for (std::size_t k = 0; k < given_.size(); ++k) {
    if (given_[k].array->is_awaited())
      refuse(k, ErrorCode::failed_precondition,
             "is still being filled by what no recording knows; wait() for it first");
  }
  plain_ = small_ = false;
  recorded_ = true;
  make_results();
  sink.take(graph_.traced.results(), std::span(arrays_.data(), graph_.num_function_results));
  recording.add(recorded());
}

/// The call as a part of a recording, with memory of its own, as a routine has.
std::shared_ptr<const Recorded> ExecutorCall::recorded() {
  fill_tables();
  std::vector<std::optional<BufferView>> entries(record_->tables.entries().size());
  for (std::size_t k = 0; k < given_.size(); ++k) {
    if (const auto& entry = graph_.parameters[k].entry) entries[*entry] = given_[k].array->view;
  }
  for (std::size_t r = 0; r < states_.size(); ++r) {
    if (const auto& entry = graph_.results[r].entry) entries[*entry] = states_[r]->view;
  }
  auto linked = make_linked(site_.loaded, std::move(entries), site_.execution);
  linked->scratch = site_.scratch;
  linked->tables = record_->tables;
  for (std::size_t e = 0; e < linked->entries.size(); ++e) {
    const auto& view = linked->entries[e];
    if (!view) continue;
    const jit::SignatureEntry& entry = Inside::of(graph_.code)->signature().entries[e];
    linked->accesses.add({&*view, use_of(entry), Inside::of(graph_.code)->tensor(e)});
    linked->memories.push_back(Inside::of(view->buffer())->memory);
  }
  auto call = std::make_shared<Recorded>();
  call->device = Inside::of(device_);
  call->linked = linked;
  call->statics.emplace(graph_.code, BindingsView());
  call->what = fmt::format("executor '{}'", executor_.name());
  call->accesses.add(*execution_.ledger);
  call->accesses.then(linked->accesses);
  call->accesses.be_of(call->what);
  return call;
}

}  // namespace heddle::rt
