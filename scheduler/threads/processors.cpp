// Affinity masks from sched_getaffinity, quotas from the files of cgroup v2 and v1.
#include "scheduler/threads/processors.hpp"

#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <fstream>
#include <limits>
#include <memory>
#include <optional>
#include <string_view>

#include "heddle/scheduler.hpp"
#include "scheduler/threads/cgroups.hpp"

namespace heddle::sched {
namespace {

/// The whole of `text` as a positive number of microseconds; nullopt for "max", -1 and malformed
/// text.
std::optional<double> microseconds(std::string_view text) noexcept {
  std::int64_t us = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), us);
  if (error != std::errc() || end != text.data() + text.size() || us <= 0) return std::nullopt;
  return static_cast<double>(us);
}

/// CPU time in processors; infinity without a limit.
double quota_of(const std::string& quota, const std::string& period) noexcept {
  const auto allowed = microseconds(quota), each = microseconds(period);
  return allowed && each ? *allowed / *each : std::numeric_limits<double>::infinity();
}

/// The lowest quota of this process's groups.
double cgroup_quota(const std::string& root) {
  double tightest = std::numeric_limits<double>::infinity();
  for (const std::string& group : cgroup_directories("cpu", root)) {
    std::string quota, period;
    std::ifstream(group + "/cpu.max") >> quota >> period;  // v2
    tightest = std::min(tightest, quota_of(quota, period));
    std::string quota_v1, period_v1;
    std::ifstream(group + "/cpu.cfs_quota_us") >> quota_v1;
    std::ifstream(group + "/cpu.cfs_period_us") >> period_v1;
    tightest = std::min(tightest, quota_of(quota_v1, period_v1));
  }
  return tightest;
}

}  // namespace

std::vector<unsigned> allowed_processors() {
  // The kernel refuses a set smaller than the kernel's own, and does not report the required size.
  for (std::size_t count = CPU_SETSIZE; count <= std::size_t{1} << 20; count *= 2) {
    const std::unique_ptr<cpu_set_t, void (*)(cpu_set_t*)> set(
        CPU_ALLOC(count), [](cpu_set_t* memory) { CPU_FREE(memory); });
    if (!set) throw std::bad_alloc();
    const std::size_t bytes = CPU_ALLOC_SIZE(count);
    CPU_ZERO_S(bytes, set.get());
    if (::sched_getaffinity(0, bytes, set.get()) == 0) {
      std::vector<unsigned> result;
      for (unsigned k = 0; k < count; ++k) {
        if (CPU_ISSET_S(k, bytes, set.get())) result.push_back(k);
      }
      return result;
    }
    if (errno != EINVAL) break;
  }
  return {};
}

unsigned processors_within_quota(unsigned allowed, const std::string& root) {
  const double quota = std::ceil(cgroup_quota(root));
  const unsigned most = std::max(1u, allowed);
  return quota < static_cast<double>(most) ? std::max(1u, static_cast<unsigned>(quota)) : most;
}

}  // namespace heddle::sched

namespace heddle {

unsigned available_processors() noexcept {
  unsigned allowed = 1;
  try {
    allowed = std::max(1u, static_cast<unsigned>(sched::allowed_processors().size()));
    return sched::processors_within_quota(allowed);
  } catch (...) {  // no memory to read the files: the mask alone decides
    return allowed;
  }
}

}  // namespace heddle
