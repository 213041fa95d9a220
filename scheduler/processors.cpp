// How many processors this process may use: affinity mask and cgroup CPU quota.
#include <sched.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <string>

#include "heddle/scheduler.hpp"

namespace heddle {
namespace {

/// Processors' worth of CPU time that one cgroup directory allows; infinity when it sets no limit.
double quota_of(const std::string& directory) {
  std::ifstream v2(directory + "/cpu.max");
  std::string quota;
  double period = 0;
  if (v2 >> quota >> period && quota != "max" && period > 0)
    return std::strtod(quota.c_str(), nullptr) / period;
  std::ifstream v1_quota(directory + "/cpu.cfs_quota_us");
  std::ifstream v1_period(directory + "/cpu.cfs_period_us");
  double us = 0;
  if (v1_quota >> us && v1_period >> period && us > 0 && period > 0) return us / period;
  return std::numeric_limits<double>::infinity();
}

/// The tightest quota on the way from this process's cgroup to the root, in v2's and v1's
/// hierarchies.
double cgroup_quota() {
  double tightest = std::numeric_limits<double>::infinity();
  std::ifstream groups("/proc/self/cgroup");
  std::string line;
  while (std::getline(groups, line)) {
    const auto first = line.find(':');
    const auto second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const bool v2 = controllers.empty();
    if (!v2 && controllers.find("cpu") == std::string::npos) continue;
    const std::string root = v2 ? "/sys/fs/cgroup" : "/sys/fs/cgroup/" + controllers;
    std::string path = line.substr(second + 1);
    while (true) {
      tightest = std::min(tightest, quota_of(root + path));
      if (path.empty() || path == "/") break;
      path.erase(path.rfind('/'));
    }
  }
  return tightest;
}

unsigned affinity_count() noexcept {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) != 0) return 1;
  return static_cast<unsigned>(CPU_COUNT(&set));
}

}  // namespace

unsigned available_processors() noexcept {
  unsigned count = std::max(1u, affinity_count());
  try {
    const double quota = cgroup_quota();
    if (quota < static_cast<double>(count))
      count = std::max(1u, static_cast<unsigned>(std::floor(quota)));
  } catch (...) {  // no memory to read the files: the mask alone decides
  }
  return count;
}

}  // namespace heddle
