// Checks that processes may be started: a limit of the user or of a container may leave none.
#pragma once

#include <cstddef>
#include <string>

namespace heddle::jit {

/// The number of processes that a compiler's command needs at once: the compiler, the driver of the
/// linker, the linker.
inline constexpr std::size_t compiler_processes = 3;

/// Throws Error(unavailable) unless `processes` processes may be started at once (a compiler that
/// cannot start its processes retries for 15 s each before its error). The check starts as many
/// threads, which count toward the same limits; three threads take some 70 us. Processes started by
/// other programs meanwhile may still exceed the limit. Any thread.
void check_process_room(std::size_t processes);

/// The limits, and advice; begins with "; ".
[[nodiscard]] std::string process_room_advice();

}  // namespace heddle::jit
