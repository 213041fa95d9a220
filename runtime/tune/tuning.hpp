// Tuning: compiles candidates of a program's schedule, compares their results with the cost model's
// choice, measures the candidates on a device, and keeps the best. Any thread; waits for the
// device.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>

#include "heddle/code.hpp"
#include "heddle/program.hpp"
#include "heddle/tune.hpp"
#include "jit/code/code.hpp"
#include "runtime/device/backend_state.hpp"

namespace heddle::rt {

/// The clocks of tuning; tests replace both.
struct TuneTools {
  /// Time since the start of the tuning; unset: by the steady clock.
  std::function<std::chrono::nanoseconds()> clock{};
  /// Calls `run` and returns its duration in seconds; unset: by the steady clock.
  std::function<double(const ScheduleChoices& choices, const std::function<void()>& run)> seconds{};
};

/// Implements Backend::tune().
[[nodiscard]] TunedSchedule tune(const std::shared_ptr<BackendState>& state, const Program& program,
                                 const CompileOptions& options, const TuneTools& tools = {});

/// Tells whether `options` leave choices to tuning.
[[nodiscard]] bool has_choices(const CompileOptions& options) noexcept;

}  // namespace heddle::rt
