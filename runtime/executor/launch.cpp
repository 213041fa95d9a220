// The launch of an executor's call: on the fast path, as a Work, or in a recording.
#include "runtime/executor/call.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <mutex>
#include <new>
#include <utility>

#include "jit/system/inside.hpp"
#include "runtime/device/device_state.hpp"
#include "runtime/device/execution.hpp"
#include "runtime/door/fast_path.hpp"
#include "runtime/executor/state.hpp"
#include "runtime/executor/variable_state.hpp"
#include "runtime/replay/recording.hpp"
#include "scheduler/device/clocks.hpp"
#include "scheduler/protocol/lane.hpp"

namespace heddle::rt {

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

sched::Label ExecutorCall::put(void* place, const Event& event) {
  const sched::Label label = site_.label;
  for (ArrayState* const state : states_) state->event = event;
  if (!seen_.empty()) release(&event);
  if (!small_) {
    *static_cast<CallRecord**>(place) = record_.release();
    return label;
  }
  auto* const call = ::new (place) SmallCall{&site_, {}};
  const SmallBuffers& kernel = *site_.small;
  for (std::uint32_t k = 0; k < kernel.num_buffers; ++k) {
    const auto& buffer = kernel.buffers[k];
    const BufferView& view =
        buffer.result ? states_[buffer.number]->view : given_[buffer.number].array->view;
    call->data[k] = Inside::of(view.buffer())->data + view.offset();
  }
  return label;
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
