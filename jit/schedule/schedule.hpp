// Schedules: how the statements of a kernel run on a target, as rewritten loops that a reader can
// print. The last stage before emitting; pure and deterministic. Any thread.
//
// Each top-level nest is examined separately. A recognised nest is rewritten by the steps of its
// class; other nests stay as they are. Every step keeps the scalar meaning of the loops, so the
// verifier and a plain interpreter check them all. Numbers may differ from those of the unscheduled
// loops where a schedule fixes another order of summation, or rounds a product and its sum once
// (fma): for a given schedule they are the same in each run and from each compiler.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "heddle/code.hpp"
#include "jit/lower/lower.hpp"
#include "jit/vector/target.hpp"

namespace heddle::jit {

/// The kernel, scheduled for `target`. Buffers keep their numbers; scratch added by schedules
/// follows, with a tensor each. Comments in the kernel name the choices made. `without`: steps to
/// leave out. `tile`: of all contractions; throws invalid_argument where the tile does not fit.
/// `choices`: override the cost model's, as far as `without` and `tile` permit; also throw
/// invalid_argument. `fast_math`: numbers may be less exact than the statements';
/// `unordered_scatters`: threads of a GPU may accumulate in any order; see CompileOptions for both.
[[nodiscard]] Lowered schedule(Lowered lowered, const Target& target,
                               std::span<const ScheduleStep> without = {},
                               const std::optional<ContractionTile>& tile = {},
                               const ScheduleChoices& choices = {}, bool fast_math = false,
                               bool unordered_scatters = false);

/// The orders in which the scheduled loops take the terms of float sums, where they differ from the
/// unscheduled loops: a text for each such sum, sorted. Schedules of a kernel with equal orders
/// compute the same bits, unless they accumulate atomically.
[[nodiscard]] std::vector<std::string> sum_orders(const Loop& scheduled);

}  // namespace heddle::jit
