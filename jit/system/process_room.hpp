// Whether processes may be started: a limit of the user or of a container may leave none.
#pragma once

#include <cstddef>
#include <string>

namespace heddle::jit {

/// The processes that a compiler's command needs at once: itself, a linker's driver, the linker.
inline constexpr std::size_t compiler_processes = 3;

/// Throws Error(unavailable) unless so many processes may be started at once (compilers that may
/// not start theirs try for 15 s each before they say it). It starts as many threads to see that,
/// which the same limits count; three take some 70 us. What others start meanwhile may still be too
/// much. Any thread.
void check_process_room(std::size_t processes);

/// The limits, and what to do; begins with "; ".
[[nodiscard]] std::string process_room_advice();

}  // namespace heddle::jit
