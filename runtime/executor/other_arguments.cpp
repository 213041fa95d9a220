// Side parameters, as seen by the hook that sets them; variables, as read by a call.
#include "runtime/executor/other_arguments.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <functional>
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
  slots_[k].array.emplace(array);
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
      throw Error(slot.array ? ErrorCode::invalid_argument : ErrorCode::failed_precondition,
                  fmt::format("{}: side parameter {} of {}, '{}' {} of graph '{}', {}",
                              target.user(), at, graph.sides.size(), *slot.name,
                              slot.type->to_string(), graph.traced.name(), problem));
    };
    if (!slot.array)
      refuse("is not set; set it in ExecutorOptions::on_side_parameters, or make it an argument");
    if (slot.array->type() != *slot.type)
      refuse("is set to an array " + slot.array->type().to_string());
    others[graph.sides[at] - graph.num_arguments] = {std::move(slot.array), slot.donated};
  }
  return others;
}

void VariableSnapshot::read(OtherArguments& others) {
  const auto other = [&](std::size_t parameter) -> OtherArgument& {
    return others[parameter - graph_.num_arguments];
  };
  // Arrays of a refused attempt would count as handles below.
  for (const CompiledGraph::VariableUse& use : graph_.variables) {
    for (std::size_t k = 0; k < use.variable->types.size(); ++k)
      other(use.first_parameter + k).array.reset();
    seen_.push_back({.variable = use.variable.get()});
  }
  std::ranges::sort(seen_, std::less<>(), &Seen::variable);
  boost::container::small_vector<std::unique_lock<std::mutex>, 2> locks;
  for (Seen& each : seen_) {
    locks.push_back(each.variable->lock());
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
      other(parameter) = {array, donated};
      if (donated) std::ranges::find(seen_, use.variable.get(), &Seen::variable)->donated = true;
    }
  }
}

bool VariableSnapshot::hold() noexcept {
  for (Seen& each : seen_) each.lock = each.variable->mutex.lock_or_fork();
  const bool same = std::ranges::all_of(seen_, [](const Seen& each) {
    return each.lock.owns_lock() && each.variable->changes == each.changes &&
           (!each.donated || each.variable->looks == each.looks);
  });
  if (!same) unlock();
  return same;
}

void VariableSnapshot::install(std::span<Array> updates) noexcept {
  auto updated = updates.begin();
  for (const CompiledGraph::VariableUse& use : graph_.variables) {
    if (!use.first_result) continue;
    std::vector<Array>& arrays = use.variable->arrays;
    updated = std::swap_ranges(arrays.begin(), arrays.end(), updated);
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
