// The scheduler's own threads: named, with signals blocked, bound to a processor if requested. Any
// thread.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <thread>

namespace heddle::sched {

/// Throws Error(invalid_argument), naming `name`, when this process may not use `processor`.
void require_allowed(const std::string& name, unsigned processor);

/// Starts a thread with all signals blocked, named (the kernel keeps 15 characters), and bound to
/// `processor`, if given, before `body` begins; this process must be allowed to use `processor`.
/// Throws Error(unavailable) when no thread can be started.
[[nodiscard]] std::thread start_thread(const std::string& name, std::optional<unsigned> processor,
                                       std::function<void()> body);

}  // namespace heddle::sched
