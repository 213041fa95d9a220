// Names of kernels for debuggers and profilers: libraries that dumps keep, and perf's map.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <sstream>

#include "cached.hpp"
#include "devices/cpu_debug_names.hpp"
#include "devices/cpu_perf_map.hpp"

namespace heddle::jit::testing {
namespace {

/// How many object files that gdb is shown have this symbol.
int told_to_gdb(std::string_view symbol) {
  int count = 0;
  for (const dev::GdbEntry* at = __jit_debug_descriptor.first; at != nullptr; at = at->next)
    count += std::string_view(at->object, at->bytes).find(symbol) != std::string_view::npos ? 1 : 0;
  return count;
}

/// Whether code lies in memory of no file, by /proc/self/maps: "BEGIN-END MODE OFFSET DEVICE
/// INODE".
bool is_anonymous(heddle_kernel_function function) {
  const auto at = reinterpret_cast<std::uintptr_t>(function);
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    std::istringstream fields(line);
    std::string range, mode, offset, device;
    unsigned long inode = 0;
    fields >> range >> mode >> offset >> device >> inode;
    const std::size_t dash = range.find('-');
    if (std::stoull(range, nullptr, 16) <= at &&
        at < std::stoull(range.substr(dash + 1), nullptr, 16))
      return inode == 0;
  }
  return false;
}

class DumpsTest : public CompilerTest {};
INSTANTIATE_TEST_SUITE_P(Cpu, DumpsTest, ::testing::ValuesIn(every_compiler()), param_name);

TEST_P(DumpsTest, KeepLibrariesForDebuggers) {
  // J12: perf and gdb read names from the file that a function was loaded from
  const Scratch scratch;
  ToolOptions options = scratch.options();
  options.dump_dir = scratch.path() / "dumps";
  const auto compiler = make(options);
  dev::LoadOptions kept;
  kept.library_dir = options.dump_dir;
  const auto module = loaded(*compiler->compile(adder_unit(4)), kept);
  Dl_info info{};
  ASSERT_NE(dladdr(reinterpret_cast<const void*>(module->host_function(0)), &info), 0);
  EXPECT_STREQ(info.dli_sname, "heddle_run_adder");
  EXPECT_EQ(std::filesystem::path(info.dli_fname).parent_path(), options.dump_dir);
  EXPECT_THAT(read_text(info.dli_fname), ::testing::HasSubstr("heddle_run_adder"));
  // Compiled again, it takes the place of a file whose code may be running.
  const auto again = loaded(*compiler->compile(adder_unit(4)), kept);
  EXPECT_EQ(run_adder(*module), 5);
  EXPECT_EQ(run_adder(*again), 5);
}

TEST_P(DumpsTest, UnitsOfOneNameHaveFilesOfTheirOwn) {
  // O26, J9: none is lost, and what is compiled again has the file that it had
  const Scratch scratch;
  ToolOptions options = scratch.options();
  options.dump_dir = scratch.path() / "dumps";
  const auto compiler = make(options);
  for (int k = 0; k < 2; ++k) {
    static_cast<void>(compiler->compile(adder_unit(4)));
    static_cast<void>(compiler->compile(adder_unit(70)));
  }
  EXPECT_THAT(read_text(options.dump_dir / "adder.loop"), ::testing::HasSubstr(" 4:i32"));
  EXPECT_THAT(read_text(options.dump_dir / "adder-2.loop"), ::testing::HasSubstr(" 70:i32"));
  EXPECT_FALSE(std::filesystem::exists(options.dump_dir / "adder-3.loop"));
}

TEST_P(DumpsTest, APerfMapNamesKernels) {
  // J12: perf's convention: START SIZE NAME, in hex; compiled or from the cache, a line per load
  const std::filesystem::path map = dev::perf_map_path();
  EXPECT_EQ(map, "/tmp/perf-" + std::to_string(getpid()) + ".map");
  std::filesystem::remove(map);
  CacheScratch here(GetParam() == "clang" ? "cc" : GetParam());
  if (GetParam() == "clang") here.options.cc = *second_compiler();
  static_cast<void>(here.use(4));
  EXPECT_FALSE(std::filesystem::exists(map)) << "nobody asked for it";
  dev::LoadOptions mapped;
  mapped.perf_map = true;
  mapped.labels = {"plus one"};
  std::vector<std::shared_ptr<const dev::Module>> held;
  for (const int value : {4, 5})
    held.push_back(loaded(*here.open()->compile(adder_unit(value)), mapped));
  std::istringstream lines(read_text(map));
  for (std::size_t k = 0; k < held.size(); ++k) {
    std::string start, size, name;
    ASSERT_TRUE(std::getline(lines >> start >> size >> std::ws, name));
    EXPECT_EQ(std::stoull(start, nullptr, 16),
              reinterpret_cast<std::uintptr_t>(held[k]->host_function(0)));
    EXPECT_GT(std::stoull(size, nullptr, 16), 0u);
    EXPECT_EQ(name, "plus one#adder");
    EXPECT_EQ(run_adder(*held[k]), 5 + static_cast<int>(k)) << "the code is the same";
    EXPECT_TRUE(is_anonymous(held[k]->host_function(0))) << "perf asks for no other code";
  }
  EXPECT_FALSE(lines >> std::ws && !lines.eof());
  struct stat info{};
  ASSERT_EQ(stat(map.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  EXPECT_EQ(told_to_gdb("plus one#adder"), 2);
  const int before = open_descriptors();
  held.clear();
  EXPECT_EQ(told_to_gdb("plus one#adder"), 0) << "names go with the code";
  EXPECT_EQ(open_descriptors(), before);
  std::filesystem::remove(map);
}

TEST(PerfMapTest, AnothersFileIsLeftAlone) {
  // J12: /tmp is everybody's
  CacheScratch here;
  const std::filesystem::path elsewhere = here.scratch.path() / "elsewhere";
  std::filesystem::remove(dev::perf_map_path());
  std::filesystem::create_symlink(elsewhere, dev::perf_map_path());
  dev::LoadOptions mapped;
  mapped.perf_map = true;
  const auto compiled = here.open()->compile(adder_unit(1));
  try {
    static_cast<void>(loaded(*compiled, mapped));
    ADD_FAILURE() << "it followed a link";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::unavailable) << "the compiler is not to blame";
    EXPECT_THAT(error.status().to_string(), ::testing::HasSubstr("HEDDLE_PERF_MAP"));
  }
  EXPECT_FALSE(std::filesystem::exists(elsewhere));
  std::filesystem::remove(dev::perf_map_path());
  EXPECT_EQ(run_adder(*compiled), 2);
  std::filesystem::remove(dev::perf_map_path());
}

}  // namespace
}  // namespace heddle::jit::testing
