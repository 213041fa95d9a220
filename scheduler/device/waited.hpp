// Waited: how a wait ended. A type only.
#pragma once

#include <cstdint>

namespace heddle::sched {

/// The event is done; the deadline passed first; the waiting task was asked to stop; or the wait
/// was refused: the task would have waited for itself, or the thread or part may not wait.
enum class Waited : std::uint8_t { done, late, stopped, refused };

}  // namespace heddle::sched
