// Logging: one hook and one level for the process. Any thread; the hook may be called from several
// at once.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

namespace heddle {

enum class LogLevel : std::uint8_t { off, error, warn, info, debug, trace };

/// Receives a finished line without a newline. It must not call back into heddle's logging
/// settings.
using LogHook = std::function<void(LogLevel level, std::string_view text)>;

/// Messages above `level` are dropped before they are built. Default: warn.
void set_log_level(LogLevel level) noexcept;
[[nodiscard]] LogLevel log_level() noexcept;
/// Replaces the sink; an empty hook restores the default, stderr. Never stdout.
void set_log_hook(LogHook hook);
/// Sends a line to the hook when `level` is on. Never throws: what a hook throws is dropped.
void log(LogLevel level, std::string_view text) noexcept;

}  // namespace heddle
