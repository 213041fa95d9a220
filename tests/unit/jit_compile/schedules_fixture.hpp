// Compiled schedules against the interpreter, on every instruction set that is here.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "compilers.hpp"
#include "heddle/host_array.hpp"
#include "jit/schedule/schedule.hpp"
#include "kernel_runner.hpp"
#include "support/loop_interpreter.hpp"
#include "support/random_contraction.hpp"
#include "support/seeds.hpp"

namespace heddle::jit::testing {

/// The machine's own, and narrower ones.
inline std::vector<Isa> isas() {
  std::vector<Isa> usable;
  for (const Isa isa :
       {Isa::none, Isa::portable, Isa::avx2, Isa::avx512, Isa::avx512_vnni, Isa::avx512_bf16}) {
    if (isa <= native_target().isa) usable.push_back(isa);
  }
  return usable;
}

using Fill = HostArray (*)(const ArrayType& type, std::uint64_t seed);

inline std::vector<HostArray> arrays_for(const Loop& loop, std::uint64_t seed, Fill fill) {
  std::vector<HostArray> arrays;
  for (std::size_t k = 0; k < loop.buffers.size(); ++k)
    arrays.push_back(fill(loop.buffers[k].type, seed + k));
  return arrays;
}

inline void call(heddle_kernel_function function, const std::vector<HostArray>& arrays) {
  Call call;
  for (const HostArray& array : arrays) {
    const auto* from = static_cast<const std::byte*>(array.data());
    call.buffers.emplace_back(from, from + array.num_bytes());
  }
  call.run(function);
  for (std::size_t k = 0; k < arrays.size(); ++k) {
    if (arrays[k].num_bytes() > 0)
      std::memcpy(arrays[k].data(), call.buffers[k].data(), arrays[k].num_bytes());
  }
}

inline void expect_as_interpreted(const CompileUnit& unit,
                                  const std::shared_ptr<const Compiler>& compiler, Isa isa,
                                  Fill fill = small_numbers) {
  const auto module = loaded(*compiler->compile(unit));
  for (std::size_t k = 0; k < unit.kernels.size(); ++k) {
    const Loop& loop = *unit.kernels[k].loop;
    const std::vector<HostArray> expected = arrays_for(loop, k, fill);
    interpret(loop, expected);
    const std::vector<HostArray> found = arrays_for(loop, k, fill);
    call(module->host_function(k), found);
    for (std::size_t buffer = 0; buffer < found.size(); ++buffer) {
      if (loop.buffers[buffer].role == Role::scratch) continue;
      ASSERT_TRUE(same_elements(expected[buffer], found[buffer]))
          << compiler->name() << " " << name(isa) << " " << unit.kernels[k].name << " t" << buffer
          << "\n"
          << print(loop);
    }
  }
}

class SchedulesTest : public CompilerTest {
 protected:
  static std::shared_ptr<const Compiler> make_for(Isa isa) {
    ToolOptions options;
    options.target = tiny_target(isa);
    options.optimization_level = 1;
    options.compile_timeout = std::chrono::minutes(5);
    return make(options);
  }
};

inline CompileUnit scheduled_unit(Program (*make)(std::uint64_t seed), Isa isa,
                                  std::uint64_t seeds = test::slower > 1 ? 4 : 12,
                                  bool fast_math = false) {
  CompileUnit unit{"scheduled", {}};
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    const Lowered made =
        schedule(optimize(lower(make(seed))), tiny_target(isa), {}, {}, {}, fast_math);
    unit.kernels.push_back({"seed" + std::to_string(seed), made.verified, {}, {}});
  }
  return unit;
}

}  // namespace heddle::jit::testing
