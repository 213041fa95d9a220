// Side parameters, as seen by the hook that sets them; variables, as read by a call.
#include "runtime/executor/other_arguments.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <string>
#include <string_view>
#include <utility>

#include "heddle/status.hpp"
#include "jit/system/inside.hpp"
#include "runtime/executor/arguments.hpp"
#include "runtime/executor/state.hpp"
#include "runtime/executor/variable_state.hpp"
#include "runtime/memory/array_state.hpp"
#include "runtime/memory/buffer_state.hpp"

namespace heddle {

const SideParameters::Slot& SideParameters::slot(std::size_t k) const {
  if (k < slots_.size()) return slots_[k];
  throw Error(ErrorCode::invalid_argument,
              fmt::format("side parameter {} of graph '{}', which has {}, from 0 on", k,
                          graph_.name(), slots_.size()));
}

const std::string& SideParameters::name(std::size_t k) const { return *slot(k).name; }
const ArrayType& SideParameters::type(std::size_t k) const { return *slot(k).type; }

void SideParameters::put(std::size_t k, const Array& array, bool donated) {
  static_cast<void>(slot(k));
  slots_[k].array = array;
  slots_[k].donated = donated;
}

std::size_t SideParameters::find(std::string_view name) const {
  const auto at =
      std::ranges::find_if(slots_, [&](const Slot& each) { return *each.name == name; });
  if (at != slots_.end()) return static_cast<std::size_t>(at - slots_.begin());
  std::string names;
  for (const Slot& each : slots_)
    names += fmt::format("{}'{}'", names.empty() ? "" : ", ", *each.name);
  throw Error(
      ErrorCode::invalid_argument,
      fmt::format("graph '{}' has no side parameter '{}'; it has {}", graph_.name(), name, names));
}

namespace rt {
namespace {

void ask_hook(const CallTarget& target, SideParameters& sides) {
  const ExecutorState& executor = target.executor;
  const ExecutorState::UserCode inside(executor);
  try {
    executor.options.on_side_parameters(sides);
  } catch (...) {
    const Status cause = executors::caught();
    throw Error(Status(cause.code(),
                       fmt::format("{}: the hook of its side parameters failed, for graph '{}'",
                                   target.user(), target.graph().traced.name()),
                       cause)
                    .with_exception(std::current_exception()));
  }
}

/// Tells whether the array is a whole buffer that no other handle can reach.
bool can_be_updated_in_place(const Array& array) noexcept {
  const auto& state = Inside::of(array);
  const auto& buffer = Inside::of(state->view.buffer());
  return state.use_count() == 1 && buffer.use_count() == 1 &&
         state->view.num_bytes() == buffer->bytes && buffer->constant.empty();
}

}  // namespace

OtherArguments SideHook::ask(const CallTarget& target) {
  const CompiledGraph& graph = target.graph();
  OtherArguments others(graph.parameters.size() - graph.num_arguments);
  if (graph.sides.empty()) return others;
  SideParameters sides(graph.traced.graph());
  for (const std::size_t k : graph.sides)
    sides.slots_.push_back({&graph.parameters[k].name, &graph.parameters[k].type});
  if (target.executor.options.on_side_parameters) ask_hook(target, sides);
  for (std::size_t at = 0; at < graph.sides.size(); ++at) {
    SideParameters::Slot& slot = sides.slots_[at];
    const auto refuse = [&](std::string_view problem) {
      throw Error(
          slot.array.defined() ? ErrorCode::invalid_argument : ErrorCode::failed_precondition,
          fmt::format("{}: side parameter {} of {}, '{}' {} of graph '{}', {}", target.user(), at,
                      graph.sides.size(), *slot.name, slot.type->to_string(), graph.traced.name(),
                      problem));
    };
    if (!slot.array.defined())
      refuse("is not set; set it in ExecutorOptions::on_side_parameters, or make it an argument");
    if (slot.array.type() != *slot.type)
      refuse("is set to an array " + slot.array.type().to_string());
    others[graph.sides[at] - graph.num_arguments] = {std::move(slot.array), slot.donated};
  }
  return others;
}

void VariableSnapshot::read(OtherArguments& others) {
  seen_.reserve(graph_.locked.size());
  for (VariableState* const variable : graph_.locked) {
    Seen& seen = seen_.emplace_back(variable);
    seen.lock = variable->lock();
    variable->mutex.claim();
    static_cast<void>(variable->recall());
    seen.changes = variable->changes;
    seen.looks = variable->looks;
  }
  for (const CompiledGraph::VariableUse& use : graph_.variables) {
    for (std::size_t k = 0; k < use.variable->arrays.size(); ++k) {
      const Array& array = use.variable->arrays[k];
      const std::size_t parameter = use.first_parameter + k;
      OtherArgument& other = others[parameter - graph_.num_arguments];
      other.donated =
          graph_.parameters[parameter].updated_in_place && can_be_updated_in_place(array);
      other.array = array;
      seen_[use.lock].donated |= other.donated;
    }
  }
  unlock();
}

void VariableSnapshot::drop(OtherArguments& others) const noexcept {
  for (const CompiledGraph::VariableUse& use : graph_.variables) {
    for (std::size_t k = 0; k < use.variable->types.size(); ++k)
      others[use.first_parameter + k - graph_.num_arguments].array = Array();
  }
}

bool VariableSnapshot::hold() noexcept {
  for (Seen& each : seen_) each.lock = std::unique_lock(each.variable->mutex);
  const bool same = std::ranges::all_of(seen_, [](const Seen& each) {
    return !each.variable->mutex.is_torn() && each.variable->changes == each.changes &&
           (!each.donated || each.variable->looks == each.looks);
  });
  if (!same) unlock();
  return same;
}

void VariableSnapshot::install(std::span<executors::Result> updates) noexcept {
  auto update = updates.begin();
  for (const CompiledGraph::VariableUse& use : graph_.variables) {
    if (!use.first_result) continue;
    for (Array& array : use.variable->arrays) Inside::swap(array, *update++);
    ++use.variable->changes;
  }
}

void VariableSnapshot::unlock() noexcept {
  for (Seen& each : seen_) each.lock = {};
}

bool VariableSnapshot::is_outdated() noexcept {
  unlock();  // locks that a refused call still holds
  if (!hold()) return true;
  bool same = true;
  for (const Seen& each : seen_) same = !each.variable->recall() && same;
  unlock();
  return !same;
}

}  // namespace rt
}  // namespace heddle
