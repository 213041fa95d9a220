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

#include "heddle/code.hpp"
#include "jit/lower/lower.hpp"
#include "jit/vector/target.hpp"

namespace heddle::jit {

/// The kernel, scheduled for `target`. Buffers keep their numbers; scratch that schedules need
/// comes after them, with a tensor each. Comments in the kernel say what was chosen. `without`:
/// steps that are left out. `tile`: of all contractions; invalid_argument where it does not fit.
[[nodiscard]] Lowered schedule(Lowered lowered, const Target& target,
                               std::span<const ScheduleStep> without = {},
                               const std::optional<ContractionTile>& tile = {});

}  // namespace heddle::jit
