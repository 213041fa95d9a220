// What bounds the host's memory: cgroups read from trees of the test's own, and RLIMIT_AS.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <filesystem>
#include <fstream>

#include "devices/memory_limit.hpp"
#include "tests/support/temp_directory.hpp"

namespace heddle::dev {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

/// A root below which /proc and /sys are written.
class Machine {
 public:
  explicit Machine(const std::string& groups) { write("proc/self/cgroup", groups); }
  void write(const fs::path& file, const std::string& text) const {
    fs::create_directories((root() / file).parent_path());
    std::ofstream(root() / file) << text;
  }
  [[nodiscard]] MemoryLimit limit() const { return host_memory_limit(root().string()); }
  [[nodiscard]] const fs::path& root() const { return directory_.path(); }

 private:
  TempDirectory directory_;
};

// D3: v2, where the tightest of nested groups counts, and "max" is no limit
TEST(MemoryLimitTest, TightestOfNestedGroupsCounts) {
  const Machine machine("0::/user/job/step\n");
  const std::uint64_t all = machine.limit().bytes;
  EXPECT_EQ(*machine.limit().source, "the machine's memory");
  machine.write("sys/fs/cgroup/user/job/step/memory.max", "max\n");
  machine.write("sys/fs/cgroup/user/job/memory.max", "300000000\n");
  machine.write("sys/fs/cgroup/user/memory.max", "400000000\n");
  machine.write("sys/fs/cgroup/memory.max", "max\n");
  EXPECT_EQ(machine.limit().bytes, 300'000'000u);
  EXPECT_EQ(*machine.limit().source,
            (machine.root() / "sys/fs/cgroup/user/job/memory.max").string());
  machine.write("sys/fs/cgroup/user/memory.max", "200000000\n");
  EXPECT_EQ(machine.limit().bytes, 200'000'000u);
  for (const char* const nonsense : {"", "many\n", "-5\n", "5e3\n"}) {
    machine.write("sys/fs/cgroup/user/memory.max", nonsense);
    EXPECT_EQ(machine.limit().bytes, 300'000'000u) << nonsense;
  }
  machine.write("sys/fs/cgroup/user/job/memory.max", "12x\n");
  EXPECT_EQ(machine.limit().bytes, all);
}

// D3: v1, alone and beside v2; groups of other controllers say nothing
TEST(MemoryLimitTest, ReadsTheFirstVersionToo) {
  const Machine machine("7:cpu,cpuacct:/job\n5:memory:/job/inner\n0::/init.scope\n");
  machine.write("sys/fs/cgroup/memory/job/inner/memory.limit_in_bytes", "9223372036854771712\n");
  machine.write("sys/fs/cgroup/memory/job/memory.limit_in_bytes", "250000000\n");
  machine.write("sys/fs/cgroup/cpu,cpuacct/job/memory.limit_in_bytes", "1\n");
  EXPECT_EQ(machine.limit().bytes, 250'000'000u);
  EXPECT_THAT(*machine.limit().source, HasSubstr("memory/job/memory.limit_in_bytes"));
  machine.write("sys/fs/cgroup/unified/init.scope/memory.max", "150000000\n");
  EXPECT_EQ(machine.limit().bytes, 150'000'000u);
}

// D3: in a container the mount is the very group that the kernel gives the whole path of
TEST(MemoryLimitTest, AContainersMountIsItsOwnGroup) {
  const Machine machine("0::/docker/0123456789ab\n");
  machine.write("sys/fs/cgroup/memory.max", "100000000\n");
  EXPECT_EQ(machine.limit().bytes, 100'000'000u);
}

// D3: the limit on the process's address space, as it stands
TEST(MemoryLimitTest, AddressSpaceCounts) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_AS, &before), 0);
  const rlimit tight{std::uint64_t{1} << 20, before.rlim_max};  // nothing is mapped meanwhile
  ASSERT_EQ(::setrlimit(RLIMIT_AS, &tight), 0);
  const MemoryLimit limit = host_memory_limit();
  ASSERT_EQ(::setrlimit(RLIMIT_AS, &before), 0);
  EXPECT_EQ(limit.bytes, std::uint64_t{1} << 20);
  EXPECT_EQ(*limit.source, "RLIMIT_AS");
  EXPECT_NE(host_memory_limit().bytes, limit.bytes);
}

}  // namespace
}  // namespace heddle::dev
