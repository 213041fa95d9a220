// A kernel to try compilers with: whether it compiles and runs, or the error that it ends with.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "kernel_runner.hpp"
#include "tests/support/failure.hpp"

namespace heddle::jit::testing {

/// A kernel that adds `value` to its one element.
inline CompileUnit adder_unit(int value, const std::string& name = "adder") {
  return unit_from(name, "buffer t0 inout i32[]\nkernel {\n  t0[] = add.i32(t0[], " +
                             std::to_string(value) + ":i32)\n}\n");
}

/// What `adder_unit(value)`, compiled, makes of 1.
inline int run_adder(const dev::Module& module) {
  Call call;
  call.buffers = {bytes_of(std::vector<std::int32_t>{1})};
  call.run(module.host_function(0));
  return elements_of<std::int32_t>(call.buffers[0])[0];
}
inline int run_adder(const Compiled& compiled, const dev::LoadOptions& options = {}) {
  return run_adder(*loaded(compiled, options));
}

inline void expect_works(const Compiler& compiler, int value = 7) {
  EXPECT_EQ(run_adder(*compiler.compile(adder_unit(value, "good"))), 1 + value);
}

inline Status compile_failure(const Compiler& compiler,
                              const CompileUnit& unit = adder_unit(1, "bad"),
                              const CompileLimits& limits = {}) {
  return failure([&] { static_cast<void>(compiler.compile(unit, limits)); });
}

}  // namespace heddle::jit::testing
