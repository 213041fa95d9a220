// Parts of collectives, for callers that record collectives repeatedly. Any thread.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "heddle/routine.hpp"

namespace heddle::rt {

/// Routines that set each tensor, in every context, to the sum of its values in the first
/// `num_terms` contexts (1 or more): one routine per device, for the device's share of the bytes,
/// or a single routine for few bytes. nullopt: a device does not reach the memory of another
/// device. Throws as Recording::all_reduce() does.
[[nodiscard]] std::optional<std::vector<Routine>> all_reduce_routines(
    std::span<const Tensor> tensors, std::span<const Context> contexts, std::size_t num_terms);

}  // namespace heddle::rt
