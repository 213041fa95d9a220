// Limits from sysconf, getrlimit and the files of cgroup v2 and v1.
#include "devices/memory_limit.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <charconv>
#include <fstream>
#include <optional>

#include "scheduler/threads/cgroups.hpp"
#include "scheduler/threads/never_destroyed.hpp"

namespace heddle::dev {
namespace {

void tighten(MemoryLimit& limit, std::uint64_t bytes, const std::string& source) {
  if (bytes < limit.bytes) limit = {bytes, std::make_shared<const std::string>(source)};
}

/// The number in a file; nullopt for "max", malformed text and missing files.
std::optional<std::uint64_t> number_in(const std::string& file) {
  std::string text;
  std::ifstream(file) >> text;
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

/// The memory of the machine and the bounds of the process's cgroups. Only an administrator changes
/// these, so host_memory_limit() reads them once.
MemoryLimit lasting_limit(const std::string& root) {
  MemoryLimit limit;
  const long pages = ::sysconf(_SC_PHYS_PAGES), page = ::sysconf(_SC_PAGESIZE);
  if (pages > 0 && page > 0) {
    tighten(limit, static_cast<std::uint64_t>(pages) * static_cast<std::uint64_t>(page),
            "the machine's memory");
  }
  for (const std::string& group : sched::cgroup_directories("memory", root)) {
    for (const char* const name : {"/memory.max", "/memory.limit_in_bytes"}) {
      if (const auto bytes = number_in(group + name)) tighten(limit, *bytes, group + name);
    }
  }
  return limit;
}

}  // namespace

MemoryLimit host_memory_limit(const std::string& root) {
  static sched::NeverDestroyed<const MemoryLimit> here(lasting_limit(""));
  static sched::NeverDestroyed<const std::shared_ptr<const std::string>> address_space(
      std::make_shared<const std::string>("RLIMIT_AS"));
  MemoryLimit limit = root.empty() ? *here : lasting_limit(root);
  rlimit space{};
  if (::getrlimit(RLIMIT_AS, &space) == 0 && space.rlim_cur != RLIM_INFINITY &&
      space.rlim_cur < limit.bytes) {
    limit = {space.rlim_cur, *address_space};
  }
  return limit;
}

}  // namespace heddle::dev
