// See toolchain/gccjit_options.hpp.
#include "jit/toolchain/gccjit_options.hpp"

#include <string>

#include "jit/toolchain/link.hpp"

namespace heddle::jit {

/// libgccjit does not expand -march=native; these levels replace the expansion.
std::string_view gccjit_machine_option(Isa isa) {
#if defined(__x86_64__)
  if (isa < native_target().isa && isa == Isa::avx2) return "-march=x86-64-v3";
  if (isa < native_target().isa && isa == Isa::portable) return "-march=x86-64";
  __builtin_cpu_init();
  if (__builtin_cpu_supports("x86-64-v4") != 0) return "-march=x86-64-v4";
  if (__builtin_cpu_supports("x86-64-v3") != 0) return "-march=x86-64-v3";
  if (__builtin_cpu_supports("x86-64-v2") != 0) return "-march=x86-64-v2";
#endif
  return "";
}

void set_gccjit_options(gcc_jit_context* context, int optimization_level, bool fast_math, Isa isa) {
  gcc_jit_context_set_str_option(context, GCC_JIT_STR_OPTION_PROGNAME, "heddle-compile");
  gcc_jit_context_set_int_option(context, GCC_JIT_INT_OPTION_OPTIMIZATION_LEVEL,
                                 optimization_level);
  const auto add = [context](std::string_view option) {
    if (!option.empty())
      gcc_jit_context_add_command_line_option(context, std::string(option).c_str());
  };
  add(gccjit_machine_option(isa));
  for (const char* option :
       {"-fwrapv", "-fno-strict-aliasing", "-fno-math-errno", "-fno-trapping-math",
        "-fno-tree-slp-vectorize", "-fno-tree-loop-distribute-patterns"}) {
    add(option);
  }
  if (fast_math) {
    for (const char* option :
         {"-fassociative-math", "-freciprocal-math", "-fno-signed-zeros", "-ffp-contract=fast"}) {
      add(option);
    }
  } else {
    add("-ffp-contract=off");
  }
  // libgccjit 12 gives functions the attribute always_inline, but does not exempt them from the
  // inliner's limits as the C front end does (DECL_DISREGARD_INLINE_LIMITS). A function beyond the
  // limits is a compile error, hence the limits are raised. The last limit applies to calls that
  // GCC considers rare.
  for (const char* option :
       {"--param=large-unit-insns=10000000", "--param=large-function-insns=10000000",
        "--param=large-stack-frame=10000000", "--param=max-inline-insns-single=100000",
        "--param=max-inline-insns-size=100000"}) {
    add(option);
  }
  // The heap would otherwise grow from compile to compile, and be collected in every compile.
  add("--param=ggc-min-heapsize=8192");
  for (const char* option : kernel_link_options) gcc_jit_context_add_driver_option(context, option);
  gcc_jit_context_add_driver_option(context, "-lm");
}

}  // namespace heddle::jit
