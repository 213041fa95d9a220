// Running the steps of a routine, in order, in its task. One thread for each run.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "runtime/merge.hpp"

namespace heddle::rt {

/// What a run was given when it was scheduled.
struct RunInputs {
  std::span<const std::int64_t> statics;
  const MergeRead* merge;  ///< null: the code reads no merge buffer
  const std::function<void(const TracedValue&)>& trace;
};

/// The first step that fails is the last. Rethrows what the trace hook threw.
[[nodiscard]] Status run_steps(Execution& execution, const Linked& linked, const RunInputs& inputs);

}  // namespace heddle::rt
