// Libraries that dumps keep, for debuggers and profilers.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cached.hpp"

namespace heddle::jit::testing {
namespace {

class DumpsTest : public CompilerTest {};
INSTANTIATE_TEST_SUITE_P(Cpu, DumpsTest, ::testing::Values("cc", "clang", "gccjit"), param_name);

TEST_P(DumpsTest, KeepLibrariesForDebuggers) {
  // J12: perf and gdb read names from the file that a function was loaded from
  const Scratch scratch;
  ToolOptions options = scratch.options();
  options.dump_dir = scratch.path() / "dumps";
  const auto compiler = make(options);
  const auto module = compiler->compile(adder_unit(4));
  Dl_info info{};
  ASSERT_NE(dladdr(reinterpret_cast<const void*>(module->function(0)), &info), 0);
  EXPECT_STREQ(info.dli_sname, "heddle_run_adder");
  EXPECT_EQ(std::filesystem::path(info.dli_fname).parent_path(), options.dump_dir);
  EXPECT_THAT(read_text(info.dli_fname), ::testing::HasSubstr("heddle_run_adder"));
  // Compiled again, it takes the place of a file whose code may be running.
  const auto again = compiler->compile(adder_unit(4));
  EXPECT_EQ(run_adder(*module), 5);
  EXPECT_EQ(run_adder(*again), 5);
}

}  // namespace
}  // namespace heddle::jit::testing
