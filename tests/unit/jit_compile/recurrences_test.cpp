// Loops that compute elements from those that other iterations wrote, and how compilers are kept
// from making vectors of them.
#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "compilers.hpp"
#include "jit/emit/c.hpp"
#include "kernel_runner.hpp"

namespace heddle::jit::testing {
namespace {

class RecurrencesTest : public CompilerTest {};
INSTANTIATE_TEST_SUITE_P(Cpu, RecurrencesTest, ::testing::ValuesIn(every_compiler()), param_name);

/// p[i + 1, j + 1] = f(p[i, j]) over an n by n square, as text; `T` is the type.
constexpr std::string_view diagonals = R"(buffer t0 inout T[N,N]
buffer t1 inout T[N,N]
buffer t2 input T[N,N]
kernel {
  for i0 in 0..M {
    for i1 in 0..M {
      t0[i0 + 1, i1 + 1] = t0[i0, i1]
    }
  }
  for i2 in 0..M {
    for i3 in 0..M {
      t1[i2 + 1, i3 + 1] = mul.T(add.T(t1[i2, i3], 1:T), t2[i2, i3])
    }
  }
}
)";

template <class T>
void expect_diagonals(const Compiler& compiler, std::string_view type) {
  CompileUnit unit;
  unit.name = "diagonals";
  for (std::size_t n = 3; n <= 20; ++n) {
    const std::string extent = std::to_string(n), moves = std::to_string(n - 1);
    std::string text = replaced(std::string(diagonals), "N", extent);
    text = replaced(replaced(std::move(text), "M", moves), "T", type);
    unit.kernels.push_back(kernel_from("n" + extent, text));
  }
  const auto module = loaded(*compiler.compile(unit));
  for (std::size_t n = 3; n <= 20; ++n) {
    std::vector<T> copied(n * n), factors(n * n);
    for (std::size_t k = 0; k < n * n; ++k) {
      copied[k] = static_cast<T>(k % 97);
      factors[k] = static_cast<T>(k % 3 == 0 ? 1 : 2);
    }
    std::vector<T> computed = copied;
    Call call;
    call.buffers = {bytes_of(copied), bytes_of(computed), bytes_of(factors)};
    call.run(module->host_function(n - 3));
    for (std::size_t k = 0; k + n + 1 < n * n; ++k) {
      if (k % n == n - 1) continue;
      copied[k + n + 1] = copied[k];
      computed[k + n + 1] = static_cast<T>(static_cast<T>(computed[k] + 1) * factors[k]);
    }
    EXPECT_EQ(elements_of<T>(call.buffers[0]), copied) << type << " " << n;
    EXPECT_EQ(elements_of<T>(call.buffers[1]), computed) << type << " " << n;
  }
}

TEST_P(RecurrencesTest, DiagonalsAreReadAfterTheyAreWritten) {
  // J3, J9: GCC 12.2 unrolls the inner loop and makes vectors of the outer one, where it loads what
  // several iterations read before it stores what they write
  for (const Isa isa : {Isa::portable, Isa::avx2, Isa::avx512}) {
    if (isa > native_target().isa) continue;
    ToolOptions options;
    options.target = with_isa(native_target(), isa);
    const auto compiler = make(options);
    expect_diagonals<float>(*compiler, "f32");
    expect_diagonals<double>(*compiler, "f64");
    expect_diagonals<std::int32_t>(*compiler, "i32");
    expect_diagonals<std::uint8_t>(*compiler, "u8");
  }
}

TEST(ScalarLoopsTest, LoopsAreLeftAloneThatCarryNoDependence) {
  // J9: the text is what it was, but for innermost loops whose stores pass through an asm
  // statement, and for outer ones that end with one: their inner loops become vectors still
  const auto c_of = [](const std::string& text) {
    return emit_c(unit_from("k", text), with_isa(native_target(), Isa::portable));
  };
  const std::string apart = c_of(R"(buffer t0 inout f32[8,9]
buffer t1 output f32[8,9]
kernel {
  for i0 in 0..8 {
    for i1 in 0..9 {
      t1[i0, i1] = mul.f32(t0[i0, i1], 2:f32)
    }
    for i2 in 0..4 {
      t0[i0, 2*i2] = t0[i0, 2*i2 + 1]
    }
  }
}
)");
  EXPECT_EQ(apart.find("__asm__"), std::string::npos) << apart;
  const std::string outer = c_of(R"(buffer t0 inout f32[8,9]
kernel {
  for i0 in 0..7 {
    for i1 in 0..8 {
      t0[i0 + 1, i1 + 1] = t0[i0, i1]
    }
  }
}
)");
  EXPECT_NE(outer.find("      t0[9 * i0 + i1 + 10] = "), std::string::npos) << outer;
  EXPECT_NE(outer.find("    }\n    __asm__(\"\");\n  }\n"), std::string::npos) << outer;
  const std::string inner = c_of(R"(buffer t0 inout f32[9]
kernel {
  for i0 in 0..8 {
    t0[i0 + 1] = t0[i0]
  }
}
)");
  EXPECT_NE(inner.find("(value));\n      t0["), std::string::npos) << inner;
  const std::string block = c_of(R"(buffer t0 inout f32[9]
kernel {
  let x0: f32[9] = 1:f32
  for i0 in 0..8 {
    x0[i0 + 1] = add.f32(x0[i0], t0[i0])
  }
  t0[0] = x0[8]
}
)");
  EXPECT_NE(block.find("];\n    __asm__(\"\");\n  }\n"), std::string::npos) << block;
}

}  // namespace
}  // namespace heddle::jit::testing
