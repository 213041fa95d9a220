// The log level for programs that do not set one. Any thread.
#pragma once

#include "heddle/observe.hpp"
#include "heddle/status.hpp"

namespace heddle {

/// Reads HEDDLE_LOG into `level` if the variable is set; invalid_argument, naming variable, value
/// and the expected values, when it is malformed. Defined by runtime/settings/config.cpp, the only
/// reader of the environment; null where the scheduler is linked without that file.
[[gnu::weak]] Status log_level_from_environment(LogLevel& level) noexcept;

namespace sched {

/// Called before the first message, and whenever a scheduler or a backend is opened: takes the
/// level from the environment, unless the program has set one. Returns the error of a malformed
/// variable; the level is then as if the variable were not set.
[[nodiscard]] Status read_log_level() noexcept;

/// Logs the line that `make` returns, if `level` is on. If `make` throws, for example without
/// memory, a fixed line is logged instead.
template <class Make>
void log_made(LogLevel level, const Make& make) noexcept {
  if (level > log_level()) return;
  try {
    heddle::log(level, make());
  } catch (...) {
    heddle::log(level, "there was no memory for what was to be said here");
  }
}

}  // namespace sched
}  // namespace heddle
