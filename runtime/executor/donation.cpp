// See runtime/executor/donation.hpp.
#include "runtime/executor/donation.hpp"

#include <fmt/format.h>

#include <atomic>
#include <optional>

#include "runtime/executor/arguments.hpp"
#include "scheduler/observe/log.hpp"

namespace heddle::rt {
namespace {

void tell_in_vain(const CallArguments& arguments, std::size_t k) {
  const CompiledGraph& graph = arguments.graph();
  // relaxed: only the first thread to set the flag logs.
  if (graph.told_in_vain.exchange(true, std::memory_order_relaxed)) return;
  sched::log_made(LogLevel::info, [&] {
    return fmt::format("{}: {} is donated in vain: no result of graph '{}' can have its memory",
                       arguments.user(), arguments.name_of(k), graph.traced.name());
  });
}

}  // namespace

Donation::Donation(const CallArguments& arguments) : Donation(arguments.graph()) {
  // An updated variable keeps its own memory: where the call is skipped, the old value is there.
  const auto is_updated = [&](std::size_t k) {
    return arguments[k].donated && graph_.parameters[k].updated_in_place;
  };
  for (std::size_t k = graph_.num_arguments; k < arguments.size(); ++k) {
    const auto& update = graph_.parameters[k].update;
    if (!update) continue;
    if (is_updated(k)) {
      give(k, *update);
    } else {
      keeps_memory_ = false;
    }
  }
  if (!arguments.has_donated()) return;
  const auto give_all = [&](bool made) {
    for (std::size_t k = 0; k < arguments.size(); ++k) {
      if (!arguments[k].donated || arguments[k].made != made || is_updated(k)) continue;
      if (give(k).result == Gift::no_result && !made) tell_in_vain(arguments, k);
    }
  };
  give_all(false);
  if (arguments.has_made()) give_all(true);
}

const Gift& Donation::give(std::size_t parameter) {
  gift_to_.resize(graph_.results.size(), no_gift);
  const auto result =
      !graph_.parameters[parameter].may_be_taken
          ? std::nullopt
          : search_.next(gift_to_.size(), [&](std::size_t candidate) {
              return gift_to_[candidate] == no_gift && graph_.may_take(candidate, parameter);
            });
  if (result) {
    give(parameter, *result);
  } else {
    gifts_.push_back({parameter, Gift::no_result});
    keeps_memory_ = false;
  }
  return gifts_.back();
}

void Donation::give(std::size_t parameter, std::size_t result) {
  gift_to_.resize(graph_.results.size(), no_gift);
  gift_to_[result] = static_cast<std::uint32_t>(gifts_.size());
  gifts_.push_back({parameter, result});
}

}  // namespace heddle::rt
