// Compiling and running whole kernels on every CPU compiler.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compilers.hpp"
#include "kernel_runner.hpp"

namespace heddle::jit::testing {
namespace {

const std::string matmul = R"(buffer t0 input f32[4,3]
buffer t1 input f32[3,2]
buffer t2 output f32[4,2]
kernel {
  zero t2
  for i0 in 0..4 {
    for i1 in 0..2 {
      for i2 in 0..3 {
        t2[i0, i1] = add.f32(t2[i0, i1], mul.f32(t0[i0, i2], t1[i2, i1]))
      }
    }
  }
}
)";

class CompileTest : public CompilerTest {};
INSTANTIATE_TEST_SUITE_P(Cpu, CompileTest, ::testing::Values("cc", "clang", "gccjit"), param_name);

TEST_P(CompileTest, MultipliesMatrices) {
  // J3, O48
  const auto compiler = make();
  const auto module = compiler->compile(unit_from("mm", matmul));
  Call call;
  std::vector<float> a(12);
  std::vector<float> b(6);
  for (std::size_t k = 0; k < 12; ++k) a[k] = static_cast<float>(k);
  for (std::size_t k = 0; k < 6; ++k) b[k] = static_cast<float>(10 * k + 1);
  call.buffers = {bytes_of(a), bytes_of(b), bytes_of(std::vector<float>(8, 99.0F))};
  call.run(module->function(0));
  std::vector<float> expected(8);
  for (std::size_t i = 0; i < 4; ++i) {
    for (std::size_t j = 0; j < 2; ++j) {
      for (std::size_t k = 0; k < 3; ++k) expected[2 * i + j] += a[3 * i + k] * b[2 * k + j];
    }
  }
  EXPECT_EQ(elements_of<float>(call.buffers[2]), expected) << module->source();
}

}  // namespace
}  // namespace heddle::jit::testing
