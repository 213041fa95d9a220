// The kernel cache between processes: one cold cache for many, writers that are killed, readers
// that see all of an entry or none, and a bound that holds.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <functional>
#include <random>
#include <set>
#include <thread>

#include "cached.hpp"
#include "child_process.hpp"
#include "files/temp_dir.hpp"
#include "tests/support/seeds.hpp"

namespace heddle::jit::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::IsEmpty;

std::uint64_t new_seed() {
  const std::uint64_t seed = std::random_device{}();
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  return seed;
}

CompileKey key_of(std::uint64_t n) { return KeyHasher().add(std::to_string(n)).finish(); }

/// Content that tells its key: of a size and with bytes that follow from `n`.
std::vector<std::byte> content_of(std::uint64_t n) {
  std::mt19937_64 random(n);
  std::vector<std::byte> content(1000 + random() % 60'000);
  for (std::byte& byte : content) byte = static_cast<std::byte>(random());
  return content;
}

std::vector<std::string> temporaries(const fs::path& directory) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(directory)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(".tmp")) names.push_back(name);
  }
  return names;
}

TEST(KernelCacheStressTest, ProcessesShareAColdCache) {
  // J11: two and more that compile the same at once; all right, one entry each
  CacheScratch here;
  std::vector<pid_t> processes;
  for (int process = 0; process < 3; ++process) {
    processes.push_back(start([&here] {
      const auto compiler = here.open();
      for (int value = 0; value < 4; ++value) {
        if (run_adder(*compiler->compile(adder_unit(value))) != 1 + value) return false;
      }
      return compiler->counters().corrupt + compiler->counters().truncated == 0;
    }));
  }
  for (const pid_t process : processes) EXPECT_TRUE(ended_well(process));
  EXPECT_EQ(here.entries().size(), 4u);
  EXPECT_THAT(temporaries(here.options.cache_dir), IsEmpty());
  for (int value = 0; value < 4; ++value) EXPECT_EQ(here.use(value).compiled, 0u);
}

TEST(KernelCacheStressTest, KilledWritersLeaveNothingHalf) {
  // J11: kill -9 at random moments; a reader never sees a damaged entry
  CacheScratch here;
  const fs::path& directory = here.options.cache_dir;
  std::mt19937_64 random(new_seed());
  constexpr std::uint64_t keys = 8;
  KernelCache reader({directory});
  int found = 0;
  // A loaded machine may leave a writer no time in any of forty rounds.
  for (int round = 0; round < 40 || (found == 0 && round < 4000); ++round) {
    const std::uint64_t first = random() % keys;
    int begun[2];
    ASSERT_EQ(pipe2(begun, O_CLOEXEC), 0);
    const FileDescriptor reading(begun[0]);
    FileDescriptor writing(begun[1]);
    const pid_t writer = start([&, first]() -> bool {
      KernelCache cache({directory});
      if (write(writing.get(), "", 1) != 1) return false;
      for (std::uint64_t n = first;; ++n) cache.store(key_of(n % keys), "x", content_of(n % keys));
    });
    // A process takes longer to begin than a round lasts, so the round begins with it.
    writing = {};
    char byte = 0;
    ASSERT_EQ(read(reading.get(), &byte, 1), 1) << "the writer did not begin";
    const auto until =
        std::chrono::steady_clock::now() + std::chrono::microseconds(500 + random() % 8000);
    while (std::chrono::steady_clock::now() < until) {
      const std::uint64_t n = random() % keys;
      if (const auto entry = reader.load(key_of(n)).entry) {
        ++found;
        ASSERT_EQ(entry->library.bytes, content_of(n));
      }
    }
    kill(writer, SIGKILL);
    int status = 0;
    ASSERT_EQ(waitpid(writer, &status, 0), writer);
    ASSERT_TRUE(WIFSIGNALED(status)) << "the writer ended by itself";
  }
  EXPECT_GT(found, 0);
  for (const CacheFile& file : reader.list()) EXPECT_EQ(file.problem, "");
  EXPECT_EQ(reader.counters().corrupt + reader.counters().truncated, 0u);
  // What they had begun goes with the next look at the directory.
  static_cast<void>(reader.prune(~std::uint64_t{0}));
  EXPECT_THAT(temporaries(directory), IsEmpty());
}

TEST(KernelCacheStressTest, FilesOfLivingWritersAreLeftAlone) {
  // J11: what is abandoned is told by its lock, not by its age
  CacheScratch here;
  const fs::path& directory = here.options.cache_dir;
  std::vector<pid_t> writers;
  for (std::uint64_t w = 0; w < 2; ++w) {
    writers.push_back(start([&directory, w] {
      KernelCache cache({directory});
      std::uint64_t kept = 0;
      for (std::uint64_t n = 0; n < 100; ++n) {
        kept += cache.store(key_of(100 * w + n), "x", content_of(n)) ? 1 : 0;
      }
      return kept == 100;
    }));
  }
  KernelCache pruner({directory});
  int status = 0;
  while (waitpid(writers[0], &status, WNOHANG) == 0)
    static_cast<void>(pruner.prune(~std::uint64_t{0}));
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  EXPECT_TRUE(ended_well(writers[1]));
}

TEST(KernelCacheStressTest, AFileIsLeftAloneFromItsFirstMoment) {
  // J11: a pruner that does nothing else meets writers between making a file and locking it
  CacheScratch here;
  const fs::path& directory = here.options.cache_dir;
  const pid_t writer = start([&directory] {
    KernelCache cache({directory});
    for (int n = 0; n < 3000 / (test::slower > 1 ? 3 : 1); ++n) {
      if (!cache.store(key_of(0), "x", {})) return false;
    }
    return true;
  });
  int status = 0;
  while (waitpid(writer, &status, WNOHANG) == 0) {
    CacheTrouble trouble;
    const FileDescriptor opened = open_cache_directory(directory, false, trouble);
    if (!opened) continue;  // not made yet
    std::error_code gone;
    for (fs::directory_iterator at(directory, gone), end; !gone && at != end; at.increment(gone)) {
      const std::string name = at->path().filename().string();
      if (kind_of_cache_file(name) == CacheFileKind::temporary)
        static_cast<void>(remove_if_abandoned(opened.get(), name));
    }
  }
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

TEST(KernelCacheStressTest, WhatIsEvictedMeanwhileIsNotDamaged) {
  // J11: list and verify beside processes that prune
  CacheScratch here;
  const fs::path& directory = here.options.cache_dir;
  const pid_t evicting = start([&directory]() -> bool {
    KernelCache cache({directory});
    for (;;) {
      for (std::uint64_t n = 0; n < 20; ++n) cache.store(key_of(n), "x", {});
      static_cast<void>(cache.prune(0));
    }
  });
  const KernelCache reader({directory});
  std::size_t seen = 0;
  for (int round = 0; round < 3000 || seen < 100; ++round) {
    for (const CacheFile& file : reader.list()) {
      ++seen;
      ASSERT_EQ(file.problem, "");
    }
  }
  kill(evicting, SIGKILL);
  int status = 0;
  EXPECT_EQ(waitpid(evicting, &status, 0), evicting);
  EXPECT_TRUE(WIFSIGNALED(status)) << "it ended by itself";
}

TEST(KernelCacheStressTest, ChildrenInheritNoDescriptorOfIt) {
  // J11: a child that is started while the directory is read gets none of it
  CacheScratch here;
  const fs::path& directory = here.options.cache_dir;
  KernelCache cache({directory});
  for (std::uint64_t n = 0; n < 50; ++n) ASSERT_TRUE(cache.store(key_of(n), "x", {}));
  struct stat wanted{};
  ASSERT_EQ(stat(directory.c_str(), &wanted), 0);
  std::jthread reading([&cache](const std::stop_token& stop) {
    while (!stop.stop_requested()) static_cast<void>(cache.info());
  });
  for (int seen = 0; seen < 500;) {
    for (int fd = 3; fd < 64; ++fd) {
      // Both of one moment (proc(5)): the descriptor is another thread's.
      std::ifstream file("/proc/self/fdinfo/" + std::to_string(fd));
      unsigned flags = O_CLOEXEC;
      ino_t inode = 0;
      for (std::string word; file >> word;) {
        if (word == "flags:") file >> std::oct >> flags >> std::dec;
        if (word == "ino:") file >> inode;
      }
      if (inode != wanted.st_ino) continue;
      ++seen;
      ASSERT_NE(flags & O_CLOEXEC, 0u);
    }
  }
}

TEST(KernelCacheStressTest, TheLeastRecentlyUsedGoFirst) {
  // J11: bounded; reading marks as used
  CacheScratch here;
  const std::vector<std::byte> content(10'000);
  KernelCache cache({here.options.cache_dir, 100'000});
  std::set<std::uint64_t> there;
  const auto age = [&](std::uint64_t n, int seconds) {
    const timespec then{1'000'000'000 + seconds, 0};
    const timespec both[] = {then, then};
    ASSERT_EQ(utimensat(AT_FDCWD, (here.options.cache_dir / to_hex(key_of(n))).c_str(), both, 0),
              0);
  };
  for (std::uint64_t n = 0; n < 9; ++n) {
    ASSERT_TRUE(cache.store(key_of(n), "x", content));
    age(n, static_cast<int>(n));
  }
  EXPECT_TRUE(cache.load(key_of(0)).entry) << "is now the most recently used";
  ASSERT_TRUE(cache.store(key_of(9), "x", content));
  EXPECT_TRUE(cache.load(key_of(0)).entry);
  EXPECT_FALSE(cache.load(key_of(1)).entry);
  EXPECT_TRUE(cache.load(key_of(9)).entry);
  EXPECT_EQ(cache.counters().evicted, 2u);
  for (std::uint64_t n = 10; n < 60; ++n) {
    ASSERT_TRUE(cache.store(key_of(n), "x", content));
    EXPECT_LE(cache.info().bytes, 110'000u);
  }
  EXPECT_FALSE(cache.store(key_of(99), "x", std::vector<std::byte>(100'001)));
  EXPECT_EQ(cache.counters().full, 1u);
}

TEST(KernelCacheStressTest, ProcessesPruneAtOnce) {
  // J11: several that write and prune; what is there is whole, and the bound holds for all
  CacheScratch here;
  const fs::path& directory = here.options.cache_dir;
  constexpr std::uint64_t bytes_max = 500'000;
  const std::uint64_t seed = new_seed();
  std::vector<pid_t> processes;
  for (std::uint64_t process = 0; process < 3; ++process) {
    processes.push_back(start([&, process] {
      KernelCache cache({directory, bytes_max});
      std::mt19937_64 random(seed + process);
      for (int k = 0; k < 150; ++k) {
        const std::uint64_t n = random() % 40;
        if (const auto entry = cache.load(key_of(n)).entry) {
          if (entry->library.bytes != content_of(n)) return false;
        } else if (!cache.store(key_of(n), "x", content_of(n)) &&
                   cache.counters().full + cache.counters().corrupt > 0) {
          return false;
        }
      }
      return true;
    }));
  }
  for (const pid_t process : processes) EXPECT_TRUE(ended_well(process));
  KernelCache cache({directory, bytes_max});
  for (const CacheFile& file : cache.list()) EXPECT_EQ(file.problem, "");
  // Each process may add a sixteenth before it looks at what others added.
  EXPECT_LE(cache.info().bytes, bytes_max + 3 * (bytes_max / 16 + 61'100));
}

TEST(KernelCacheStressTest, CountersOfAllProcessesAddUp) {
  // J11: counted; a process that never looked adds nothing
  CacheScratch here;
  for (int k = 0; k < 3; ++k) static_cast<void>(here.use(7));
  EXPECT_EQ(here.cache().info().counters.compiled, 1u);
  EXPECT_EQ(here.cache().info().counters.disk_hits, 2u);
  EXPECT_EQ(here.cache().info().counters.absent, 1u);
  EXPECT_EQ(here.cache().info().counters.stored, 1u);
  write_file(here.options.cache_dir / "counters", "disk_hits many\ncompiled 5\nnonsense");
  EXPECT_EQ(here.cache().info().counters.disk_hits, 0u);
  EXPECT_EQ(here.cache().info().counters.compiled, 5u);
}

}  // namespace
}  // namespace heddle::jit::testing
