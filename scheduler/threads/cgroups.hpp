// The control groups of this process: directories with files that limit the process's use of the
// machine. Any thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace heddle::sched {

/// Directories of the groups that limit this process by `controller` ("cpu", "memory"), from the
/// process's group up to the root, in v2's hierarchy and in v1's. A directory may be missing: in a
/// container the mount may be the very group whose full path the kernel reports. `root` is a prefix
/// of /proc and /sys, for tests with their own tree. Throws std::bad_alloc.
[[nodiscard]] std::vector<std::string> cgroup_directories(std::string_view controller,
                                                          const std::string& root = "");

}  // namespace heddle::sched
