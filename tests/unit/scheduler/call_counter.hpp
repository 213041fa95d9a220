// Counts what each thread asks of the system: locks and system calls. Linking it puts its functions
// before those of the C library; sanitizers need that place for theirs.
#pragma once

#include <cstdint>

namespace heddle {

/// How often the calling thread has called pthread_mutex_lock().
[[nodiscard]] std::uint64_t locks_taken() noexcept;
/// How often the calling thread has called syscall(): futexes among them.
[[nodiscard]] std::uint64_t system_calls() noexcept;

}  // namespace heddle
