// How a wait ended. A type only.
#pragma once

#include <cstdint>

namespace heddle::sched {

/// How a wait ended: the event is done, the deadline passed first, the waiting task was asked to
/// stop, or would have waited for itself, or on a thread or in a part that may not wait.
enum class Waited : std::uint8_t { done, late, stopped, refused };

}  // namespace heddle::sched
