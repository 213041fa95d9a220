// The share of the machine's memory that this process may take. Any thread.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <string>

namespace heddle::dev {

/// A bound and its source: "the machine's memory", "/sys/fs/cgroup/job/memory.max", ...
struct MemoryLimit {
  std::uint64_t bytes = std::numeric_limits<std::uint64_t>::max();
  std::shared_ptr<const std::string> source;  ///< null: no bound
};

/// The minimum of the machine's memory, the limits of this process's cgroups (v2 and v1, including
/// parent groups), and the current RLIMIT_AS. `root` is a prefix of /proc and /sys, for tests with
/// their own tree; without `root` the files are read once. Throws std::bad_alloc, but not after a
/// first success without `root`.
[[nodiscard]] MemoryLimit host_memory_limit(const std::string& root = "");

}  // namespace heddle::dev
