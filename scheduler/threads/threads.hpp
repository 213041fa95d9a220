// Threads of the scheduler's own: named, deaf to signals, where they are wanted. Any thread.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <thread>

namespace heddle::sched {

/// Throws Error(invalid_argument), in the name of `name`, when this process may not use
/// `processor`.
void require_allowed(const std::string& name, unsigned processor);

/// Starts a thread with all signals blocked, named (the kernel keeps 15 characters), and bound to
/// `processor` if there is one, which this process may use, before `body` begins. Throws
/// Error(unavailable) when none can be started.
[[nodiscard]] std::thread start_thread(const std::string& name, std::optional<unsigned> processor,
                                       std::function<void()> body);

}  // namespace heddle::sched
