// What this process may take of the machine's memory. Any thread.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <string>

namespace heddle::dev {

/// A bound, and what sets it: "the machine's memory", "/sys/fs/cgroup/job/memory.max", ...
struct MemoryLimit {
  std::uint64_t bytes = std::numeric_limits<std::uint64_t>::max();
  std::shared_ptr<const std::string> source;  ///< null: there is no bound
};

/// The least of the machine's memory, the limits of this process's cgroups (v2 and v1, nested
/// ones), and RLIMIT_AS as it stands. `root` stands before /proc and /sys, for tests with a tree of
/// their own; without it the files are read once. Throws std::bad_alloc, but not once it has
/// succeeded without `root`.
[[nodiscard]] MemoryLimit host_memory_limit(const std::string& root = "");

}  // namespace heddle::dev
