// Arguments of an executor's call: checks, and copies to the device.
#include "runtime/device/allocation.hpp"
#include "runtime/executor/call.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <functional>
#include <mutex>
#include <utility>

#include "jit/system/inside.hpp"
#include "runtime/device/execution.hpp"
#include "runtime/executor/state.hpp"
#include "runtime/executor/variable_state.hpp"

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

}  // namespace heddle::rt
