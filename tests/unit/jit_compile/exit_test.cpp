// What compiles share outlives them, also those that run while the process ends.
#include <gtest/gtest.h>

#include <cstdlib>

#include "compilers.hpp"
#include "files/temp_dir.hpp"
#include "jit/cache/key.hpp"
#include "jit/emit/c.hpp"
#include "jit/toolchain/helper.hpp"
#include "kernel_runner.hpp"
#include "scratch.hpp"

namespace heddle::jit::testing {
namespace {

constexpr const char* some_of_each = R"(buffer t0 output f32[64]
buffer t1 input f16[64]
kernel {
  for i0 in 0..64 {
    t0[i0] = exp.f32(max.f32(f32(t1[i0]), 0.5:f32))
  }
}
)";

/// What a compile asks of tables that are made once; `scratch` is to be looked through once.
std::string ask_tables(const Scratch& scratch) {
  const TempDir directory(scratch.options().temp_dir);
  std::string text = emit_c(unit_from("exit", some_of_each)) + processor_stamp();
  for (const auto& place : helper_places({})) text += place.string();
  return text;
}

// S13: a backend of static storage may be compiling still when other statics have gone
TEST(AtExitDeathTest, TablesOutliveCompiles) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // a process that has made no table yet
  EXPECT_EXIT(
      {
        static const Scratch* const scratch = new Scratch;   // NOLINT: gone below
        static std::string* const before = new std::string;  // NOLINT: needed at exit
        std::atexit([] {  // runs when what was made after this has been destroyed
          if (ask_tables(*scratch) != *before) std::_Exit(1);
          delete scratch;
          delete before;
        });
        *before = ask_tables(*scratch);
        std::exit(0);  // NOLINT: with the destructors
      },
      ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace heddle::jit::testing
