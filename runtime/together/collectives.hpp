// Parts of collectives for those that record them again and again. Any thread.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "heddle/routine.hpp"

namespace heddle::rt {

/// What makes each tensor, in all contexts, the sum of what it is in the first `num_terms` of them,
/// 1 or more: one routine for each device, each for its share of the bytes, or one for all where
/// there are few. nullopt where a device does not reach the memory of another. Throws as
/// Recording::all_reduce() does.
[[nodiscard]] std::optional<std::vector<Routine>> all_reduce_routines(
    std::span<const Tensor> tensors, std::span<const Context> contexts, std::size_t num_terms);

}  // namespace heddle::rt
