// The compilers that tests run on: the system compiler, the second C compiler where there is one,
// and gccjit.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "jit/system/process.hpp"
#include "jit/system/programs.hpp"
#include "jit/toolchain/compiler.hpp"
#include "tests/support/seeds.hpp"

namespace heddle::jit::testing {

/// A clang on this machine.
inline std::optional<std::string> second_compiler() {
  for (const char* name : {"clang-19", "clang"}) {
    if (find_program(name, {})) return name;
  }
  return std::nullopt;
}

/// The CPU compilers of tests. Sanitizers find nothing in clang: it is another program, called as
/// the system compiler is.
inline std::vector<std::string> every_compiler() {
  if (test::slower > 1) return {"cc", "gccjit"};
  return {"cc", "clang", "gccjit"};
}

/// Each test runs on every CPU compiler.
class CompilerTest : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (GetParam() == "clang" && !second_compiler()) GTEST_SKIP() << "there is no clang here";
  }

  static std::shared_ptr<const Compiler> make(ToolOptions options = {}) {
    if (GetParam() == "gccjit") return make_gccjit_compiler(options);
    if (GetParam() == "clang") options.cc = *second_compiler();
    return make_cc_compiler(options);
  }
};

inline std::string param_name(const ::testing::TestParamInfo<std::string>& each) {
  return each.param;
}

}  // namespace heddle::jit::testing
