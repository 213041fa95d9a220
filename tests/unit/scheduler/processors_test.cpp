// How many processors the scheduler thinks it may use (S19): masks, and cgroup trees written into a
// directory.
#include "scheduler/threads/processors.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "heddle/scheduler.hpp"
#include "tests/support/temp_directory.hpp"

namespace heddle {
namespace {

using sched::allowed_processors;
using sched::processors_within_quota;

// D1, S19: of a machine without quotas, what the mask says; under quotas fewer
TEST(ProcessorsTest, AtLeastOneAndNoMoreThanThereAre) {
  const auto allowed = static_cast<unsigned>(allowed_processors().size());
  EXPECT_GE(allowed, 1u);
  EXPECT_LE(allowed, std::max(1u, std::thread::hardware_concurrency()));
  EXPECT_EQ(available_processors(), processors_within_quota(allowed));
}

// S19: the affinity mask is respected, whichever subset it is
TEST(ProcessorsTest, FollowTheAffinityMask) {
  const std::vector<unsigned> all = allowed_processors();
  if (all.size() < 2) GTEST_SKIP() << "one processor";
  const unsigned within_quota = processors_within_quota(static_cast<unsigned>(all.size()));
  const auto bind = [](const std::vector<unsigned>& processors) {
    cpu_set_t set;
    CPU_ZERO(&set);
    for (const unsigned k : processors) CPU_SET(k, &set);
    ASSERT_EQ(::sched_setaffinity(0, sizeof set, &set), 0);
  };
  std::thread([&] {
    for (std::size_t count = 1; count <= all.size(); ++count) {
      const std::vector<unsigned> some(all.end() - static_cast<std::ptrdiff_t>(count), all.end());
      bind(some);
      EXPECT_EQ(allowed_processors(), some);
      EXPECT_EQ(available_processors(), std::min(static_cast<unsigned>(count), within_quota));
    }
    // A pool's workers, as many as these, may run there too, and nowhere else.
    bind({all.back()});
    Scheduler scheduler;
    sched::DeviceOptions pooled;
    pooled.mode = sched::Mode::pooled;
    std::vector<unsigned> seen;
    scheduler.new_device(pooled).submit("ask", [&] { seen = allowed_processors(); }).wait();
    EXPECT_THAT(seen, testing::ElementsAre(all.back()));
  }).join();
}

/// A root directory with the files of cgroups that a test wants.
class QuotaTest : public testing::Test {
 protected:
  void write(const std::string& path, const std::string& text) {
    const auto file = directory_.path() / path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  /// What a process in `groups` gets, which may use 16 processors.
  unsigned processors(const std::string& groups) {
    write("proc/self/cgroup", groups);
    return processors_within_quota(16, directory_.path().string());
  }

 private:
  TempDirectory directory_;
};

// S19: cgroup v2
TEST_F(QuotaTest, V2) {
  write("sys/fs/cgroup/job/cpu.max", "300000 100000\n");
  EXPECT_EQ(processors("0::/job\n"), 3u);
  EXPECT_EQ(processors("0::/other\n"), 16u);
}

// S19: cgroup v1, by whatever name its controllers are mounted, in whatever order
TEST_F(QuotaTest, V1) {
  const std::string others = "12:memory:/job\n3:cpuset:/job\n";
  write("sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us", "500000\n");
  write("sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(processors(others + "4:cpu,cpuacct:/job\n"), 5u);
  write("sys/fs/cgroup/cpu/job/cpu.cfs_quota_us", "400000\n");
  write("sys/fs/cgroup/cpu/job/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(processors(others + "4:cpuacct,cpu:/job\n"), 4u);
  EXPECT_EQ(processors("4:cpu:/job\n"), 4u);
  // Others are none of ours, though their names begin alike.
  write("sys/fs/cgroup/cpuset/job/cpu.cfs_quota_us", "100000\n");
  write("sys/fs/cgroup/cpuset/job/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(processors(others), 16u);
}

// S19: both at once, as on hybrid systems: the tighter one counts
TEST_F(QuotaTest, V1AndV2) {
  write("sys/fs/cgroup/cpu/job/cpu.cfs_quota_us", "700000");
  write("sys/fs/cgroup/cpu/job/cpu.cfs_period_us", "100000");
  write("sys/fs/cgroup/job/cpu.max", "600000 100000");
  EXPECT_EQ(processors("4:cpu:/job\n0::/\n"), 7u);
  EXPECT_EQ(processors("4:cpu:/job\n0::/job\n"), 6u);
}

// S19: the tightest of nested groups, wherever it is
TEST_F(QuotaTest, NestedGroups) {
  const std::string v2 = "0::/a/b/c\n", v1 = "4:cpu:/a/b/c\n";
  write("sys/fs/cgroup/a/b/c/cpu.max", "900000 100000");
  EXPECT_EQ(processors(v2), 9u);
  write("sys/fs/cgroup/a/b/cpu.max", "max 100000");
  EXPECT_EQ(processors(v2), 9u);
  write("sys/fs/cgroup/a/cpu.max", "800000 100000");
  EXPECT_EQ(processors(v2), 8u);
  // In a container the root of what is mounted may be the group itself.
  write("sys/fs/cgroup/cpu.max", "350000 50000");
  EXPECT_EQ(processors(v2), 7u);
  EXPECT_EQ(processors("0::/\n"), 7u);

  write("sys/fs/cgroup/cpu/a/b/c/cpu.cfs_quota_us", "-1");
  write("sys/fs/cgroup/cpu/a/b/c/cpu.cfs_period_us", "100000");
  EXPECT_EQ(processors(v1), 16u);
  write("sys/fs/cgroup/cpu/a/cpu.cfs_quota_us", "600000");
  write("sys/fs/cgroup/cpu/a/cpu.cfs_period_us", "100000");
  EXPECT_EQ(processors(v1), 6u);
  write("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "250000");
  write("sys/fs/cgroup/cpu/cpu.cfs_period_us", "50000");
  EXPECT_EQ(processors(v1), 5u);
}

// S19: a part of a processor counts as one, and there is always one
TEST_F(QuotaTest, FractionsRoundUp) {
  for (const auto& [quota, expected] :
       std::vector<std::pair<const char*, unsigned>>{{"1000 100000", 1},
                                                     {"50000 100000", 1},
                                                     {"100000 100000", 1},
                                                     {"100001 100000", 2},
                                                     {"150000 100000", 2},
                                                     {"250000 100000", 3},
                                                     {"1590000 100000", 16},
                                                     {"1600000 100000", 16},
                                                     {"99900000 100000", 16}}) {
    write("sys/fs/cgroup/job/cpu.max", quota);
    EXPECT_EQ(processors("0::/job\n"), expected) << quota;
  }
}

// S19, bad input: what says nothing sets no limit
TEST_F(QuotaTest, MissingAndMalformedFilesSetNoLimit) {
  for (const char* text :
       {"max 100000", "max", "", "\n", "100000", "0 100000", "-1 100000", "100000 0", "100000 -5",
        "abc 100000", "100000 abc", "12x 100000", "1e5 1e5", "99999999999999999999 100000"}) {
    write("sys/fs/cgroup/job/cpu.max", text);
    EXPECT_EQ(processors("0::/job\n"), 16u) << text;
  }
  write("sys/fs/cgroup/cpu/job/cpu.cfs_quota_us", "200000");
  EXPECT_EQ(processors("4:cpu:/job\n"), 16u) << "no period";
  write("sys/fs/cgroup/cpu/job/cpu.cfs_period_us", "often");
  EXPECT_EQ(processors("4:cpu:/job\n"), 16u);
  write("sys/fs/cgroup/cpu/job/cpu.cfs_period_us", "100000");
  EXPECT_EQ(processors("4:cpu:/job\n"), 2u) << "the files are those that are read";
  for (const char* groups : {"", "\n\n", "nonsense\n", "4:cpu\n", "::\n", ":cpu:\n", "0::\n"})
    EXPECT_EQ(processors(groups), 16u) << groups;
  EXPECT_EQ(processors("nonsense\n0:\n4:cpu:/job\n"), 2u) << "other lines do not hide it";
  EXPECT_EQ(processors_within_quota(16, "/dev/null"), 16u) << "no /proc";
  EXPECT_EQ(processors_within_quota(0, "/dev/null"), 1u);
}

}  // namespace
}  // namespace heddle
