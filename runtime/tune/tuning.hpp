// Tuning: candidates of a program's schedule are compiled, compared with the cost model's choice
// and measured on a device, and the best is kept. Any thread; it waits for the device.
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

/// How time is told: tests have clocks of their own.
struct TuneTools {
  /// Time that has passed since all began; unset: that of the steady clock.
  std::function<std::chrono::nanoseconds()> clock{};
  /// Seconds that `run` takes, which it calls; unset: by the steady clock.
  std::function<double(const ScheduleChoices& choices, const std::function<void()>& run)> seconds{};
};

/// As Backend::tune().
[[nodiscard]] TunedSchedule tune(const std::shared_ptr<BackendState>& state, const Program& program,
                                 const CompileOptions& options, const TuneTools& tools = {});

/// Whether `options` leave choices to tuning.
[[nodiscard]] bool has_choices(const CompileOptions& options) noexcept;

}  // namespace heddle::rt
