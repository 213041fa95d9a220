// /proc/self/cgroup, read line by line: "number:controllers:path".
#include "scheduler/threads/cgroups.hpp"

#include <fstream>

namespace heddle::sched {
namespace {

/// True if `name` is in a list such as "cpu,cpuacct".
bool lists(std::string_view names, std::string_view name) noexcept {
  while (true) {
    const auto comma = names.find(',');
    if (names.substr(0, comma) == name) return true;
    if (comma == std::string_view::npos) return false;
    names.remove_prefix(comma + 1);
  }
}

void add_up_to_root(std::vector<std::string>& directories, const std::string& mount,
                    std::string path) {
  while (true) {
    directories.push_back(mount + path);
    const auto slash = path.rfind('/');
    if (slash == std::string::npos) return;
    path.erase(slash);
  }
}

}  // namespace

std::vector<std::string> cgroup_directories(std::string_view controller, const std::string& root) {
  std::vector<std::string> directories;
  const std::string mounts = root + "/sys/fs/cgroup";
  std::ifstream groups(root + "/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    const auto first = line.find(':');
    if (first == std::string::npos) continue;
    const auto second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string path = line.substr(second + 1);
    if (controllers.empty()) {  // v2, possibly beside v1's hierarchies
      for (const char* const mount : {"", "/unified"})
        add_up_to_root(directories, mounts + mount, path);
    } else if (lists(controllers, controller)) {
      // Mounted by the name of the list, or of the single controller.
      for (const std::string& name : {controllers, std::string(controller)})
        add_up_to_root(directories, mounts + "/" + name, path);
    }
  }
  return directories;
}

}  // namespace heddle::sched
