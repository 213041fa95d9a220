// The processors available to this process: affinity mask and cgroup CPU quotas. Any thread.
#pragma once

#include <string>
#include <vector>

namespace heddle::sched {

/// The processors in the calling thread's affinity mask, ascending. Empty when the kernel does not
/// report a mask.
[[nodiscard]] std::vector<unsigned> allowed_processors();

/// How many of `allowed` processors the CPU quotas of this process's cgroups leave: the lowest
/// quota from its group up to the root, in v2's and v1's hierarchies. A part of a processor counts
/// as one; at least 1. Missing or malformed files set no limit. `root` is a prefix of /proc and
/// /sys, for tests with their own tree. Throws std::bad_alloc.
[[nodiscard]] unsigned processors_within_quota(unsigned allowed, const std::string& root = "");

}  // namespace heddle::sched
