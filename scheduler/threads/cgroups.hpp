// The control groups that this process is in: directories whose files say what it may take of the
// machine. Any thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace heddle::sched {

/// Directories of the groups that bound this process by `controller` ("cpu", "memory"), from its
/// own up to the root, in v2's hierarchy and in v1's; each may be missing: in a container the mount
/// may be the very group that the kernel gives the whole path of. `root` stands before /proc and
/// /sys, for tests with a tree of their own. Throws std::bad_alloc.
[[nodiscard]] std::vector<std::string> cgroup_directories(std::string_view controller,
                                                          const std::string& root = "");

}  // namespace heddle::sched
