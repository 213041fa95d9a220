// Where the log level comes from when the program does not set it. Any thread.
#pragma once

#include "heddle/observe.hpp"
#include "heddle/status.hpp"

namespace heddle {

/// What HEDDLE_LOG asks for, if it is set; invalid_argument, naming variable, value and what was
/// expected, when it is malformed. Defined by runtime/settings/config.cpp, which alone reads the
/// environment; null where the scheduler is linked without it.
[[gnu::weak]] Status log_level_from_environment(LogLevel& level) noexcept;

namespace sched {

/// Before the first message, and whenever a scheduler or a backend is opened: takes the level from
/// the environment, unless the program has set one. Returns what is wrong with it; then the level
/// is as if it was not set.
[[nodiscard]] Status read_log_level() noexcept;

/// Sends the line that `make` returns, where `level` is on. Where there is no memory for it, a line
/// says that much.
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
