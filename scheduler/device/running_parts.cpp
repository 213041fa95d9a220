// See running_parts.hpp.
#include "scheduler/device/running_parts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "scheduler/device/helpers.hpp"

namespace heddle::sched {

Cut Cut::of(std::size_t count, std::size_t grain, std::size_t parts_wanted) noexcept {
  if (count == 0) return {};
  if (grain != 0) return {count, count / grain + (count % grain != 0 ? 1 : 0), grain, 0};
  const std::size_t parts = std::min(count, parts_wanted);
  return {count, parts, count / parts, count % parts};
}

std::string Cut::describe(std::size_t part) const {
  if (count == 0) return fmt::format("part {} of {}", part + 1, parts);
  return fmt::format("part {} of {}, indices [{}, {})", part + 1, parts, from(part), to(part));
}

void RunningParts::begin(const Cut& cut) noexcept {
  // relaxed, here and below: values for snapshots; pairs with the loads in show().
  constexpr auto order = std::memory_order_relaxed;
  count_.store(cut.count, order);
  each_.store(cut.each, order);
  longer_.store(cut.longer, order);
  parts_.store(cut.parts, order);
}

void RunningParts::show(Snapshot& snapshot, const Identity& device) const {
  // relaxed, here and below: pairs with the stores in begin() and note(). Values of two tasks may
  // be mixed for a moment.
  constexpr auto order = std::memory_order_relaxed;
  const Cut cut{count_.load(order), parts_.load(order), each_.load(order), longer_.load(order)};
  std::optional<std::size_t> part = device.helpers->earliest(device.id);
  // Parts begin in ascending order: the earliest has run for the longest time.
  if (const std::size_t next = next_.load(order); next != 0 && (!part || next - 1 < *part))
    part = next - 1;
  if (part && *part < cut.parts) snapshot.part = cut.describe(*part);
}

}  // namespace heddle::sched
