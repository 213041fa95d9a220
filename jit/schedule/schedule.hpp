// Schedules: how the statements of a kernel run on a target, as rewritten loops that a reader can
// print. The last stage before emitting; pure and deterministic. Any thread.
//
// Each top-level nest is looked at on its own. What is recognised is rewritten by the steps of its
// class; the rest stays as it is. Every step keeps the scalar meaning of the loops, so the verifier
// and a plain interpreter check them all. Numbers may differ from those of the unscheduled loops
// where a schedule fixes another order of summation, or rounds a product and its sum once (fma):
// for one schedule they are the same in each run and from each compiler.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "heddle/code.hpp"
#include "jit/lower/lower.hpp"
#include "jit/vector/target.hpp"

namespace heddle::jit {

/// The kernel, scheduled for `target`. Buffers keep their numbers; scratch that schedules need
/// comes after them, with a tensor each. Comments in the kernel say what was chosen. `without`:
/// steps that are left out. `tile`: of all contractions; invalid_argument where it does not fit.
/// `choices`: in place of the cost model's, as far as `without` and `tile` leave them; likewise.
/// `fast_math`: numbers may be less exact than the statements', as CompileOptions says.
[[nodiscard]] Lowered schedule(Lowered lowered, const Target& target,
                               std::span<const ScheduleStep> without = {},
                               const std::optional<ContractionTile>& tile = {},
                               const ScheduleChoices& choices = {}, bool fast_math = false);

/// In which orders the scheduled loops take the terms of float sums, where these are not those of
/// the loops before: one text for each such sum, sorted. Schedules of one kernel that have the same
/// compute the same bits.
[[nodiscard]] std::vector<std::string> sum_orders(const Loop& scheduled);

}  // namespace heddle::jit
