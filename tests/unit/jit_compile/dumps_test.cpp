// Names of kernels for debuggers and profilers: libraries that dumps keep, and perf's map.
#include <dlfcn.h>
#include <fcntl.h>
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

TEST_P(DumpsTest, AFolderThatOthersCouldChangeIsRefused) {
  // J12: what is loaded is what was written
  const Scratch scratch;
  const std::filesystem::path above = scratch.path() / "above", folder = above / "dumps";
  ASSERT_TRUE(std::filesystem::create_directories(folder));
  const auto compiled = make(scratch.options())->compile(adder_unit(6));
  const auto refusal = [&] {
    dev::LoadOptions kept;
    kept.library_dir = folder;
    std::string told;
    try {
      EXPECT_EQ(run_adder(*loaded(*compiled, kept)), 7);
    } catch (const Error& error) {
      told = error.status().to_string();
    }
    ToolOptions texts = scratch.options();
    texts.dump_dir = folder;
    const Status text = compile_failure(*make(texts), adder_unit(6));
    EXPECT_EQ(text.ok() ? "" : text.to_string(), told);
    return told;
  };
  using ::testing::AllOf, ::testing::HasSubstr;
  for (const mode_t mode : {0777, 0770, 01777}) {
    ASSERT_EQ(chmod(folder.c_str(), mode), 0);
    EXPECT_THAT(refusal(), AllOf(HasSubstr(folder.string()), HasSubstr("others may write it"),
                                 HasSubstr("HEDDLE_DUMP_DIR")));
  }
  ASSERT_EQ(chmod(folder.c_str(), 0700), 0);
  ASSERT_EQ(chmod(above.c_str(), 0777), 0);
  EXPECT_THAT(refusal(), HasSubstr("others may write '" + above.string() + "' above it"));
  ASSERT_EQ(chmod(above.c_str(), 01777), 0);
  EXPECT_EQ(refusal(), "") << "entries of sticky directories are their owners' alone";
  if (geteuid() != 0) return;
  ASSERT_EQ(chown(folder.c_str(), 65534, 65534), 0);
  EXPECT_THAT(refusal(), HasSubstr("it belongs to user 65534"));
  ASSERT_EQ(chown(folder.c_str(), 0, 0), 0);
  ASSERT_EQ(chown(above.c_str(), 65534, 65534), 0);
  EXPECT_THAT(refusal(), HasSubstr("above it belongs to user 65534"));
}

TEST_P(DumpsTest, DoNotWriteThroughLinks) {
  // J12
  const Scratch scratch;
  ToolOptions options = scratch.options();
  options.dump_dir = scratch.path() / "dumps";
  const std::filesystem::path other = scratch.path() / "other",
                              text = options.dump_dir / "adder.loop";
  std::ofstream(other) << "mine";
  std::filesystem::create_directory(options.dump_dir);
  std::filesystem::permissions(options.dump_dir, std::filesystem::perms::owner_all);
  for (const bool symbolic : {true, false}) {
    std::filesystem::remove(text);
    symbolic ? std::filesystem::create_symlink(other, text)
             : std::filesystem::create_hard_link(other, text);
    static_cast<void>(make(options)->compile(adder_unit(6)));
    EXPECT_EQ(read_text(other), "mine");
    EXPECT_EQ(std::filesystem::hard_link_count(text), 1u);
    EXPECT_TRUE(std::filesystem::is_regular_file(std::filesystem::symlink_status(text)));
  }
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
  const std::filesystem::path map = dev::perf_map_path(), other = map.string() + "-other";
  const auto compiled = here.open()->compile(adder_unit(1));
  const auto expect_refusal = [&](const char* what, const char* why = "") {
    dev::LoadOptions mapped;
    mapped.perf_map = true;
    try {
      static_cast<void>(loaded(*compiled, mapped));
      ADD_FAILURE() << what;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::unavailable) << "the compiler is not to blame";
      EXPECT_THAT(error.status().to_string(), ::testing::HasSubstr("HEDDLE_PERF_MAP"));
      EXPECT_THAT(error.status().to_string(), ::testing::HasSubstr(why));
    }
    std::filesystem::remove(map);
  };
  std::filesystem::remove(map);
  std::filesystem::create_symlink(other, map);
  expect_refusal("it followed a link", "symbolic link");
  ASSERT_EQ(mkfifo(map.c_str(), 0600), 0);
  const FileDescriptor reader(open(map.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  expect_refusal("it wrote to a pipe");
  EXPECT_FALSE(std::filesystem::exists(other));
  std::ofstream(other) << "mine";
  std::filesystem::create_hard_link(other, map);
  expect_refusal("it wrote a file that has another name");
  EXPECT_EQ(read_text(other), "mine");
  std::filesystem::remove(other);
  if (geteuid() == 0) {
    std::ofstream(map) << "";
    ASSERT_EQ(chown(map.c_str(), 65534, 65534), 0);
    expect_refusal("it wrote another's file");
  }
  EXPECT_EQ(run_adder(*compiled), 2);
  std::filesystem::remove(dev::perf_map_path());
}

}  // namespace
}  // namespace heddle::jit::testing
