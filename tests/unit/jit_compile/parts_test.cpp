// The parts of a call share out its parallel loops, on every CPU compiler.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compilers.hpp"
#include "kernel_runner.hpp"

namespace heddle::jit::testing {
namespace {

using ::testing::ElementsAre;

class PartsTest : public CompilerTest {};
INSTANTIATE_TEST_SUITE_P(Cpu, PartsTest, ::testing::ValuesIn(every_compiler()), param_name);

TEST_P(PartsTest, ShareOutParallelLoops) {
  // kernel ABI: the parts of a call together do each iteration once, and the rest once
  const auto module = loaded(*make()->compile(unit_from("parts", R"(buffer t0 inout i32[10]
buffer t1 inout i32[]
kernel {
  t1[] = add.i32(t1[], 1:i32)
  parallel i0 in 0..10 {
    t0[i0] = add.i32(t0[i0], i32(index(i0)))
  }
}
)")));
  for (const std::uint32_t parts : {1u, 2u, 3u, 10u, 16u}) {
    Call call;
    call.buffers = {bytes_of(std::vector<std::int32_t>(10, 100)),
                    bytes_of(std::vector<std::int32_t>{0})};
    call.num_parts = parts;
    for (call.part = 0; call.part < parts; ++call.part) call.run(module->host_function(0));
    EXPECT_THAT(elements_of<std::int32_t>(call.buffers[0]),
                ElementsAre(100, 101, 102, 103, 104, 105, 106, 107, 108, 109));
    EXPECT_THAT(elements_of<std::int32_t>(call.buffers[1]), ElementsAre(1)) << parts;
  }
}

TEST_P(PartsTest, SerialKernelsAreRunByTheFirstPartAlone) {
  // kernel ABI: nothing is done twice
  const auto module = loaded(*make()->compile(unit_from("serial", R"(buffer t0 inout i32[]
kernel {
  t0[] = add.i32(t0[], 1:i32)
}
)")));
  Call call;
  call.buffers = {bytes_of(std::vector<std::int32_t>{0})};
  call.num_parts = 4;
  for (call.part = 0; call.part < 4; ++call.part) call.run(module->host_function(0));
  EXPECT_THAT(elements_of<std::int32_t>(call.buffers[0]), ElementsAre(1));
}

}  // namespace
}  // namespace heddle::jit::testing
