// The kernel cache's bound when files lie about their age or size, entries that a power cut tore,
// and removals that the system refuses.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>

#include "cached.hpp"
#include "files/temp_dir.hpp"

namespace heddle::jit::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

CompileKey key_of(int n) { return KeyHasher().add(std::to_string(n)).finish(); }

/// A cache of 64 KiB, entries of 10 KiB each.
class UpkeepTest : public ::testing::Test {
 protected:
  UpkeepTest()
      : cache_({scratch_.path() / "cache", 64 << 10,
                [this](const std::string& line) { warnings_.push_back(line); }}) {}

  bool store(int n) { return cache_.store(key_of(n), "entry", content_); }
  [[nodiscard]] fs::path path(int n) const { return scratch_.path() / "cache" / to_hex(key_of(n)); }
  [[nodiscard]] bool holds(int n) const { return fs::exists(path(n)); }
  void set_time(int n, std::time_t seconds) const {
    const timespec times[2] = {{seconds, 0}, {seconds, 0}};
    ASSERT_EQ(utimensat(AT_FDCWD, path(n).c_str(), times, 0), 0);
  }

  const Scratch scratch_;
  const std::vector<std::byte> content_ = std::vector<std::byte>(10 << 10, std::byte{7});
  std::vector<std::string> warnings_;
  KernelCache cache_;
};

constexpr std::time_t year = 366 * 24 * 3600;

TEST_F(UpkeepTest, EntriesOfTheFutureGoFirst) {
  // J11: a clock that was wrong once does not make entries immortal, nor push new ones out
  const std::time_t now = std::time(nullptr);
  for (int n = 0; n < 5; ++n) ASSERT_TRUE(store(n));
  set_time(0, now - 30);
  set_time(1, now + 10 * year);
  set_time(2, std::time_t{1} << 34);  // as far as file systems go
  set_time(3, now - 20);
  set_time(4, now + 60);  // another machine's clock may be ahead by as much
  for (int n = 10; n < 12; ++n) ASSERT_TRUE(store(n));
  static_cast<void>(cache_.prune(55 << 10));
  EXPECT_FALSE(holds(1));
  EXPECT_FALSE(holds(2));
  for (const int n : {0, 3, 4, 10, 11}) EXPECT_TRUE(holds(n)) << n;
  // What is used gets today's time, and is safe.
  set_time(0, now + 10 * year);
  ASSERT_TRUE(cache_.load(key_of(0)).entry);
  static_cast<void>(cache_.prune(45 << 10));
  EXPECT_TRUE(holds(0));
  EXPECT_FALSE(holds(3));
  for (const CacheFile& file : cache_.list()) EXPECT_THAT(file.problem, IsEmpty());
}

TEST_F(UpkeepTest, AHugeEntryThatIsNoneEvictsNothing) {
  // J11: holes have a size; its file goes, and all that is sound stays
  for (int n = 0; n < 3; ++n) ASSERT_TRUE(store(n));
  ASSERT_TRUE(store(9));
  fs::resize_file(path(9), std::uint64_t{1} << 40);  // was sound once
  const fs::path hole = path(8);
  write_file(hole, "");
  fs::resize_file(hole, std::uint64_t{1} << 40);
  // One of another version's, and one that others could have written.
  std::string other_format = read_text(path(0));
  other_format[8] = 99;
  write_file(path(6), other_format);
  write_file(path(7), "");
  fs::permissions(path(7), fs::perms(0666));
  for (const int n : {6, 7}) fs::resize_file(path(n), std::uint64_t{1} << 40);
  KernelCache other({scratch_.path() / "cache", 64 << 10});  // looks at its first entry
  ASSERT_TRUE(other.store(key_of(5), "entry", content_));
  for (const int n : {0, 1, 2, 5}) EXPECT_TRUE(holds(n)) << n;
  EXPECT_FALSE(holds(8));
  EXPECT_FALSE(holds(9));
  EXPECT_FALSE(fs::exists(path(7)));
  EXPECT_TRUE(fs::exists(path(6))) << "of use to another version, and small";
  EXPECT_EQ(other.counters().evicted, 3u);
}

TEST_F(UpkeepTest, TornEntriesAreMisses) {
  // J11: entries are not forced to disk: a power cut may leave any of their blocks zero
  ASSERT_TRUE(store(1));
  std::vector<std::byte> varied(20'000);
  for (std::size_t k = 0; k < varied.size(); ++k) varied[k] = static_cast<std::byte>(k * 37 + 1);
  ASSERT_TRUE(cache_.store(key_of(2), "entry", varied));
  const std::string whole = read_text(path(2));
  constexpr std::size_t block = 512;
  for (std::size_t begin = 0; begin < whole.size(); begin += block) {
    for (const std::size_t end : {begin + block, whole.size()}) {
      std::string torn = whole;
      std::fill(torn.begin() + static_cast<std::ptrdiff_t>(begin),
                torn.begin() + static_cast<std::ptrdiff_t>(std::min(end, whole.size())), '\0');
      write_file(path(2), torn);
      EXPECT_FALSE(cache_.load(key_of(2)).entry) << begin << " to " << end;
      EXPECT_FALSE(holds(2)) << begin << " to " << end;
      write_file(path(2), whole.substr(0, begin));
      EXPECT_FALSE(cache_.load(key_of(2)).entry) << "cut at " << begin;
    }
  }
  write_file(path(2), whole);
  EXPECT_EQ(cache_.load(key_of(2)).entry->library.bytes, varied);
}

TEST_F(UpkeepTest, WhatCannotBeRemovedIsSaid) {
  // J11: clearing that clears nothing is no success
  ASSERT_TRUE(store(1));
  fs::create_directories(path(2) / "inside");
  const KernelCache::Freed freed = cache_.clear();
  EXPECT_EQ(freed.entries, 1u);
  EXPECT_EQ(freed.kept, 1u);
  EXPECT_THAT(freed.problem, HasSubstr(to_hex(key_of(2))));
  EXPECT_THAT(cache_.remove_damaged(), SizeIs(1));
  EXPECT_THAT(cache_.remove_damaged()[0].problem, HasSubstr("cannot be removed"));
  fs::remove_all(path(2));
  EXPECT_EQ(cache_.clear().kept, 0u);
}

TEST_F(UpkeepTest, AReadOnlyDirectoryIsNotCleared) {
  // J11: and says so, entry by entry
  for (int n = 0; n < 3; ++n) ASSERT_TRUE(store(n));
  const fs::path directory = scratch_.path() / "cache";
  if (mount(directory.c_str(), directory.c_str(), nullptr, MS_BIND, nullptr) != 0)
    GTEST_SKIP() << "cannot mount here";
  ASSERT_EQ(mount(nullptr, directory.c_str(), nullptr, MS_REMOUNT | MS_BIND | MS_RDONLY, nullptr),
            0);
  const KernelCache::Freed freed = cache_.clear();
  EXPECT_EQ(umount2(directory.c_str(), MNT_DETACH), 0);
  EXPECT_EQ(freed.entries, 0u);
  EXPECT_EQ(freed.kept, 3u);
  EXPECT_THAT(freed.problem, HasSubstr("ead-only"));
  EXPECT_THAT(cache_.list(), SizeIs(3));
}

}  // namespace
}  // namespace heddle::jit::testing
