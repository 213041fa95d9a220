// The kernel cache on disk: what is found, what is told apart, and every way in which a file or
// directory can be wrong. Results are never those of a damaged entry.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <random>

#include "cached.hpp"
#include "files/temp_dir.hpp"
#include "jit/toolchain/toolchain.hpp"

namespace heddle::jit::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

/// Matches counters by one of them.
auto counts(CacheReason reason, std::uint64_t n) { return Field(reason, n); }

auto is_warm() {
  return AllOf(counts(&KernelCacheCounters::disk_hits, 1),
               counts(&KernelCacheCounters::compiled, 0));
}
/// Compiled, kept, and not found for that reason.
auto is_cold(CacheReason why) {
  return AllOf(counts(&KernelCacheCounters::disk_hits, 0),
               counts(&KernelCacheCounters::compiled, 1), counts(why, 1),
               counts(&KernelCacheCounters::stored, 1));
}
/// Compiled, and not kept for that reason.
auto is_lost(CacheReason why) {
  return AllOf(counts(&KernelCacheCounters::compiled, 1), counts(&KernelCacheCounters::stored, 0),
               Field(why, ::testing::Ge(1u)));
}

class CacheTest : public CompilerTest {};
INSTANTIATE_TEST_SUITE_P(Cpu, CacheTest, ::testing::Values("cc", "gccjit"), param_name);

TEST_P(CacheTest, AWarmStartCompilesNothing) {
  // J11: the second process runs no compiler at all, not even for its version
  CacheScratch here(GetParam());
  EXPECT_THAT(here.use(7), is_cold(&KernelCacheCounters::absent));
  const auto compiler = here.open();
  const auto module = compiler->compile(adder_unit(7));
  EXPECT_EQ(children(), 0);
  EXPECT_EQ(run_adder(*module), 8);
  EXPECT_THAT(module->source, HasSubstr(GetParam() == "cc" ? "heddle_run_adder" : "add.i32"));
  EXPECT_THAT(compiler->counters(), is_warm());
  EXPECT_THAT(here.warnings, IsEmpty());
}

TEST_P(CacheTest, NamesAreNotPartOfTheKeyAndAllElseIs) {
  // J11, design 2: names of tensors and units stay outside; every other part of the key counts
  CacheScratch here(GetParam());
  const auto compiles = [](const CompileUnit& unit, const ToolOptions& options) {
    const auto compiler =
        GetParam() == "gccjit" ? make_gccjit_compiler(options) : make_cc_compiler(options);
    static_cast<void>(compiler->compile(unit));
    return compiler->counters().compiled;
  };
  CompileUnit unit = adder_unit(1);
  unit.kernels[0].names.buffers = {"a"};
  EXPECT_EQ(compiles(unit, here.options), 1u);
  unit.kernels[0].names.buffers = {"another // name # here"};
  unit.name = "another_unit";
  EXPECT_EQ(compiles(unit, here.options), 0u);
  CompileUnit renamed = unit;
  renamed.kernels[0].name = "other";
  EXPECT_EQ(compiles(renamed, here.options), 1u);
  CompileUnit traced = unit;
  traced.trace_values = true;
  EXPECT_EQ(compiles(traced, here.options), 1u);
  EXPECT_EQ(compiles(adder_unit(2), here.options), 1u);
  ToolOptions changed = here.options;
  changed.optimization_level = 1;
  EXPECT_EQ(compiles(unit, changed), 1u);
  changed = here.options;
  changed.fast_math = true;
  EXPECT_EQ(compiles(unit, changed), 1u);
  if (GetParam() == "cc") {
    changed = here.options;
    changed.cflags = {"-fno-plt"};
    EXPECT_EQ(compiles(unit, changed), 1u);
    changed = here.options;
    changed.cc = here.scratch.tool("cc2", "exec cc \"$@\"").string();
    EXPECT_EQ(compiles(unit, changed), 1u);
    EXPECT_EQ(compiles(unit, changed), 0u);
    // The same path, another file.
    here.scratch.tool("cc2", "exec cc -g0 \"$@\"");
    EXPECT_EQ(compiles(unit, changed), 1u);
  }
  EXPECT_EQ(compiles(unit, here.options), 0u) << "the first entry is still there";
}

TEST_P(CacheTest, CodeForAddressesStaysOffTheDisk) {
  // J7, design 2: valid for these addresses in this process only
  CacheScratch here(GetParam());
  std::int32_t value = 5;
  CompileUnit unit = adder_unit(1);
  unit.kernels[0].addresses = {reinterpret_cast<std::uint64_t>(&value)};
  const auto compiler = here.open();
  const auto first = compiler->compile(unit);
  EXPECT_EQ(compiler->compile(unit), first) << "in memory it is found";
  Call call;
  call.buffers = {bytes_of(std::vector<std::int32_t>{0})};
  call.run(loaded(*first)->host_function(0));
  EXPECT_EQ(value, 6);
  EXPECT_THAT(compiler->counters(), AllOf(counts(&KernelCacheCounters::disabled, 1),
                                          counts(&KernelCacheCounters::memory_hits, 1),
                                          counts(&KernelCacheCounters::stored, 0)));
  EXPECT_THAT(here.entries(), IsEmpty());
  unit.kernels[0].addresses = {reinterpret_cast<std::uint64_t>(&value) + 4};
  EXPECT_NE(compiler->compile(unit), first);
}

TEST(KernelCacheTest, FlippedBitsAreFoundAndCompiledAnew) {
  // J11: corrupt; any bit of header, information or library
  CacheScratch here;
  static_cast<void>(here.use(7));
  ASSERT_THAT(here.entries(), SizeIs(1));
  const fs::path path = here.entries()[0];
  const std::string whole = read_text(path);
  const std::uint64_t seed = std::random_device{}();
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  std::mt19937_64 random(seed);
  std::vector<std::size_t> bits;
  for (std::size_t byte = 0; byte < 96; ++byte) bits.push_back(8 * byte + random() % 8);
  for (int k = 0; k < 300; ++k) bits.push_back(random() % (8 * whole.size()));
  KernelCache cache({here.options.cache_dir});
  const auto key_bytes = whole.substr(16, 32);
  CompileKey key;
  std::memcpy(key.data(), key_bytes.data(), key.size());
  ASSERT_TRUE(cache.load(key).entry);
  for (const std::size_t bit : bits) {
    std::string damaged = whole;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << (bit % 8)));
    write_file(path, damaged);
    const KernelCache::Found found = cache.load(key);
    EXPECT_FALSE(found.entry) << "bit " << bit;
    EXPECT_FALSE(fs::exists(path)) << "bit " << bit;
  }
  std::string damaged = whole;
  damaged[whole.size() / 2] = static_cast<char>(damaged[whole.size() / 2] ^ 0x10);
  write_file(path, damaged);
  EXPECT_THAT(here.use(7), is_cold(&KernelCacheCounters::corrupt));
  EXPECT_THAT(here.warnings, SizeIs(1));
  EXPECT_THAT(here.warnings[0], HasSubstr("corrupt"));
  EXPECT_THAT(here.use(7), is_warm());
}

TEST(KernelCacheTest, CutFilesAreFoundAndCompiledAnew) {
  // J11: truncated, at every length class; and grown ones
  CacheScratch here;
  static_cast<void>(here.use(7));
  const fs::path path = here.entries()[0];
  const std::string whole = read_text(path);
  const auto expect_cold = [&](const std::string& text, CacheReason reason) {
    write_file(path, text);
    EXPECT_THAT(here.use(7), is_cold(reason)) << text.size();
    EXPECT_EQ(read_text(path), whole) << "published anew";
  };
  for (const std::size_t size :
       {std::size_t{0}, std::size_t{1}, std::size_t{79}, std::size_t{80}, std::size_t{81},
        std::size_t{200}, whole.size() / 2, whole.size() - 1}) {
    expect_cold(whole.substr(0, size), &KernelCacheCounters::truncated);
  }
  expect_cold(whole + "x", &KernelCacheCounters::corrupt);
  expect_cold(std::string(whole.size(), '\0'), &KernelCacheCounters::corrupt);
}

TEST(KernelCacheTest, OtherFormatsAndOtherKeysAreNotTaken) {
  // J11: an older heddle's file; a file under another's name
  CacheScratch here;
  static_cast<void>(here.use(7));
  const fs::path path = here.entries()[0];
  std::string other = read_text(path);
  other[8] = static_cast<char>(other[8] + 1);
  write_file(path, other);
  EXPECT_THAT(here.use(7), is_cold(&KernelCacheCounters::other_version));
  static_cast<void>(here.use(8));
  const auto both = here.entries();
  ASSERT_THAT(both, SizeIs(2));
  fs::copy_file(both[0] == path ? both[1] : both[0], path, fs::copy_options::overwrite_existing);
  EXPECT_THAT(here.use(7), is_cold(&KernelCacheCounters::corrupt));
}

TEST(KernelCacheTest, WhatIsNotOursAloneIsRefused) {
  // J11: foreign owners, others' write bits, links; of files and of the directory
  CacheScratch here;
  static_cast<void>(here.use(7));
  const fs::path path = here.entries()[0];
  ASSERT_EQ(chmod(path.c_str(), 0620), 0);
  EXPECT_THAT(here.use(7), is_cold(&KernelCacheCounters::foreign));
  const fs::path elsewhere = here.scratch.path() / "elsewhere";
  fs::rename(path, elsewhere);
  fs::create_symlink(elsewhere, path);
  EXPECT_THAT(here.use(7), is_cold(&KernelCacheCounters::foreign));
  EXPECT_FALSE(fs::is_symlink(path));
  const fs::path& directory = here.options.cache_dir;
  for (const mode_t mode : {0770, 0702, 0777}) {
    ASSERT_EQ(chmod(directory.c_str(), mode), 0);
    EXPECT_THAT(here.use(7), is_lost(&KernelCacheCounters::foreign));
  }
  ASSERT_EQ(chmod(directory.c_str(), 0700), 0);
  EXPECT_THAT(here.use(7), is_warm());
  const fs::path moved = here.scratch.path() / "moved";
  fs::rename(directory, moved);
  fs::create_directory_symlink(moved, directory);
  EXPECT_THAT(here.use(7), is_lost(&KernelCacheCounters::foreign));
  if (geteuid() == 0) {
    fs::remove(directory);
    fs::rename(moved, directory);
    ASSERT_EQ(chown(path.c_str(), 65534, 65534), 0);
    EXPECT_THAT(here.use(7), is_cold(&KernelCacheCounters::foreign));
    ASSERT_EQ(chown(directory.c_str(), 65534, 65534), 0);
    EXPECT_THAT(here.use(7), is_lost(&KernelCacheCounters::foreign));
  }
}

TEST(KernelCacheTest, TheDirectoryIsMadePrivate) {
  // J11: mode 0700, whatever the mask, those above it included
  CacheScratch here;
  here.options.cache_dir = here.scratch.path() / "a" / "b" / "cache";
  const mode_t old = umask(0);
  static_cast<void>(here.use(7));
  umask(old);
  struct stat info{};
  ASSERT_EQ(stat(here.options.cache_dir.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700u);
  ASSERT_EQ(stat(here.options.cache_dir.parent_path().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700u);
  ASSERT_EQ(stat(here.entries()[0].c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
}

TEST(KernelCacheTest, OddThingsInTheWayDoNoHarm) {
  // J11: directories, pipes, files of strangers; a directory that cannot be made
  CacheScratch here;
  static_cast<void>(here.use(7));
  const fs::path path = here.entries()[0];
  std::ofstream(here.options.cache_dir / "README") << "not ours";
  fs::remove(path);
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  EXPECT_THAT(here.use(7), is_cold(&KernelCacheCounters::unreadable));
  fs::remove(path);
  fs::create_directories(path / "inside");
  EXPECT_THAT(here.use(7), is_lost(&KernelCacheCounters::unwritable));
  static_cast<void>(here.cache().clear());
  EXPECT_TRUE(fs::exists(here.options.cache_dir / "README"));
  here.options.cache_dir = "/proc/self/cache";
  EXPECT_THAT(here.use(7), is_lost(&KernelCacheCounters::unwritable));
  here.options.cache_dir = "/etc/passwd/cache";
  EXPECT_THAT(here.use(7), is_lost(&KernelCacheCounters::foreign));
}

TEST(KernelCacheTest, AReadOnlyCacheIsReadAndNotWritten) {
  // J11: read-only disables writing alone
  CacheScratch here;
  static_cast<void>(here.use(7));
  const fs::path& directory = here.options.cache_dir;
  if (mount(directory.c_str(), directory.c_str(), nullptr, MS_BIND, nullptr) != 0)
    GTEST_SKIP() << "cannot mount here";
  ASSERT_EQ(mount(nullptr, directory.c_str(), nullptr, MS_REMOUNT | MS_BIND | MS_RDONLY, nullptr),
            0);
  EXPECT_THAT(here.use(7), is_warm());
  EXPECT_THAT(here.use(8), is_lost(&KernelCacheCounters::unwritable));
  EXPECT_EQ(umount2(directory.c_str(), MNT_DETACH), 0);
}

TEST(KernelCacheTest, AFullDiskKeepsNothingAndHarmsNothing) {
  // J11: full
  CacheScratch here;
  fs::create_directory(here.options.cache_dir);
  chmod(here.options.cache_dir.c_str(), 0700);
  if (mount("none", here.options.cache_dir.c_str(), "tmpfs", 0, "size=4k,mode=0700") != 0)
    GTEST_SKIP() << "cannot mount a small file system here";
  EXPECT_THAT(here.use(7), is_lost(&KernelCacheCounters::full));
  EXPECT_THAT(here.entries(), IsEmpty());
  for (const auto& entry : fs::directory_iterator(here.options.cache_dir))
    EXPECT_FALSE(entry.path().filename().string().starts_with(".tmp"));
  EXPECT_EQ(mount("none", here.options.cache_dir.c_str(), "tmpfs", MS_REMOUNT, "size=64m"), 0);
  EXPECT_THAT(here.use(7), is_cold(&KernelCacheCounters::absent));
  EXPECT_EQ(umount2(here.options.cache_dir.c_str(), MNT_DETACH), 0);
}

TEST(KernelCacheTest, ALimitOnFilesIsNoEndOfTheProcess) {
  // J11: RLIMIT_FSIZE would raise SIGXFSZ
  CacheScratch here;
  const auto compiler = here.open();
  static_cast<void>(compiler->compile(adder_unit(1)));
  rlimit old{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &old), 0);
  KernelCache cache({here.options.cache_dir});
  const std::vector<std::byte> content(100'000);
  const rlimit small{4096, old.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  EXPECT_FALSE(cache.store(CompileKey{}, "large", content));
  EXPECT_TRUE(cache.store(CompileKey{}, "small", std::span(content).first(100)));
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &old), 0);
  EXPECT_EQ(cache.counters().full, 1u);
  EXPECT_EQ(cache.load(CompileKey{}).entry->library.bytes.size(), 100u);
}

TEST(KernelCacheTest, ADirectoryThatVanishesIsMadeAgain) {
  // J11: deleted while in use
  CacheScratch here;
  const auto compiler = here.open();
  static_cast<void>(compiler->compile(adder_unit(1)));
  fs::remove_all(here.options.cache_dir);
  EXPECT_EQ(run_adder(*compiler->compile(adder_unit(1))), 2);
  EXPECT_EQ(run_adder(*compiler->compile(adder_unit(2))), 3);
  EXPECT_EQ(compiler->counters().compiled, 3u);
  EXPECT_THAT(here.use(2), is_warm());
}

TEST(KernelCacheTest, EmptyFilesAreClearedToo) {
  // J11: what a crash left of an entry has no bytes to count, and goes all the same
  CacheScratch here;
  static_cast<void>(here.use(7));
  const fs::path empty = here.options.cache_dir / to_hex(CompileKey{});
  write_file(empty, "");
  KernelCache cache({here.options.cache_dir});
  EXPECT_EQ(cache.prune(~std::uint64_t{0}).entries, 1u);
  EXPECT_FALSE(fs::exists(empty));
  EXPECT_THAT(here.entries(), SizeIs(1));
  write_file(empty, "");
  static_cast<void>(cache.clear());
  EXPECT_FALSE(fs::exists(empty));
  EXPECT_THAT(cache.list(), IsEmpty());
}

TEST(KernelCacheTest, DumpsAreOfCompiles) {
  // O26: with dumps on, what is in the cache is compiled all the same
  CacheScratch here;
  static_cast<void>(here.use(7));
  here.options.dump_dir = here.scratch.path() / "dumps";
  EXPECT_EQ(here.use(7).compiled, 1u);
  EXPECT_TRUE(fs::exists(here.options.dump_dir / "adder.c"));
}

TEST(KernelCacheTest, FlagsThatNameFilesAreNotCached) {
  // J11: the key would stay the same when a file's content changes
  CacheScratch here;
  const fs::path header = here.scratch.path() / "added.h";
  here.options.cflags = {"-include", header.string()};
  write_file(header, "");
  const auto compiler = here.open();
  const auto held = compiler->compile(adder_unit(7));
  EXPECT_EQ(run_adder(*held), 8);
  write_file(header, "#error changed\n");
  EXPECT_THROW(static_cast<void>(compiler->compile(adder_unit(7))), Error) << "in memory neither";
  EXPECT_EQ(compiler->counters().disabled, 2u);
  EXPECT_EQ(compiler->counters().stored, 0u);
  ASSERT_THAT(here.warnings, SizeIs(1));
  EXPECT_THAT(here.warnings[0], HasSubstr("HEDDLE_CC, HEDDLE_CFLAGS or BackendOptions::cflags"));
  here.options.cflags.clear();
  here.options.cc += " -include " + header.string();
  EXPECT_THROW(static_cast<void>(here.open()->compile(adder_unit(7))), Error) << "in the command";
  for (const char* flag :
       {"-isystem", "-I/tmp", "-Wl,-T,script", "-fplugin=x.so", "-fprofile-use", "-lm", "object.o",
        "-B/tmp", "-specs=file", "-fbranch-probabilities", "-L."})
    EXPECT_FALSE(are_self_contained({"-g", flag})) << flag;
  EXPECT_TRUE(
      are_self_contained({"-O1", "-g", "-DX=1", "-fno-plt", "-Wall", "-fsanitize=undefined"}));
}

TEST(KernelCacheTest, CompilersThatWillNotSayTheirVersionAreNotCached) {
  // J11: no identity, no key
  CacheScratch here;
  here.options.cc =
      here.scratch.tool("cc2", "[ \"$1\" = --version ] && exit 1\nexec cc \"$@\"").string();
  EXPECT_THAT(here.use(7), is_lost(&KernelCacheCounters::disabled));
}

}  // namespace
}  // namespace heddle::jit::testing
