// Fork detection: workers do not exist in a forked child, so it must be told apart (S14). Any
// thread.
#pragma once

#include <cstdint>

namespace heddle::sched {

/// Counts the forks between this process and the first use of heddle. The first call installs the
/// handler that counts; nothing happens before it.
[[nodiscard]] std::uint32_t fork_generation() noexcept;

}  // namespace heddle::sched
