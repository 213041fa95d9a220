// Flags of the C compiler: heddle's own flags, and checks of added flags. Any thread.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>

#include "jit/toolchain/toolchain.hpp"

namespace heddle::jit {
namespace {

bool begins_as_one_of(std::string_view flag, std::span<const std::string_view> beginnings) {
  return std::ranges::any_of(beginnings, [flag](auto begin) { return flag.starts_with(begin); });
}

/// Machine flags that do not change the instruction set.
constexpr std::array<std::string_view, 2> tuning{"-mtune=", "-mprefer-vector-width="};
/// Flags that change the instruction set, or may hide such flags.
constexpr std::array<std::string_view, 5> machine_flags{"-m", "-target", "--target", "-Xclang",
                                                        "@"};
/// A library linked with these flags makes the whole process flush subnormals.
constexpr std::array<std::string_view, 3> flushing{"-ffast-math", "-Ofast",
                                                   "-funsafe-math-optimizations"};

#if defined(__x86_64__)
/// Selects the processor's own instruction set, or a lower one where the target is lower.
std::string machine_flag(const Target& target) {
  const Isa native = native_target().isa;
  // Only kernels name instructions beyond v4.
  if (target.isa >= Isa::avx512 && native > target.isa) return "-march=x86-64-v4";
  if (target.isa == Isa::avx2 && native > Isa::avx2) return "-march=x86-64-v3";
  if (target.isa == Isa::portable && native > Isa::portable) return "-march=x86-64";
  return "-march=native";
}
#else
std::string machine_flag(const Target&) { return "-mcpu=native"; }
#endif

}  // namespace

Status check_cflags(const std::vector<std::string>& flags) {
  for (const std::string& flag : flags) {
    const auto refused = [&flag](std::string_view why) {
      return Status(
          ErrorCode::invalid_argument,
          fmt::format(
              "compiler flag '{:.200}' (of HEDDLE_CC, HEDDLE_CFLAGS or BackendOptions::cflags) {}",
              flag, why));
    };
    if (begins_as_one_of(flag, machine_flags) && !begins_as_one_of(flag, tuning)) {
      return refused(
          "may choose another instruction set than kernels are written for: leave it out; for "
          "fewer instructions than the processor has, set HEDDLE_ISA to portable or avx2");
    }
    if (begins_as_one_of(flag, flushing)) {
      return refused(
          "would make the whole process flush subnormal numbers: leave it out, and compile with "
          "CompileOptions::fast_math");
    }
  }
  return {};
}

bool are_self_contained(const std::vector<std::string>& flags) {
  constexpr std::array<std::string_view, 11> harmless{"-O", "-g",    "-W", "-w",    "-D",      "-U",
                                                      "-f", "-std=", "-m", "-pipe", "-pthread"};
  // -Wl,FILE, -fplugin=FILE, -fprofile-use, -fbranch-probabilities, -fsanitize-ignorelist=FILE
  constexpr std::array<std::string_view, 6> of_files{
      ",", "/", "plugin", "profile", "probabilities", "list="};
  return std::ranges::all_of(flags, [&](const std::string& flag) {
    return begins_as_one_of(flag, harmless) && std::ranges::none_of(of_files, [&flag](auto part) {
             return flag.find(part) != std::string::npos;
           });
  });
}

std::vector<std::string> cc_flags(const ToolOptions& options) {
  std::vector<std::string> flags{fmt::format("-O{}", options.optimization_level),
                                 machine_flag(options.target)};
#if defined(__x86_64__)
  flags.emplace_back("-mprefer-vector-width=512");  // as in libgccjit, which tunes for no CPU
#endif
  for (const char* flag :
       {"-std=gnu11", "-fPIC", "-shared", "-fvisibility=hidden", "-fwrapv", "-fno-strict-aliasing",
        "-fno-builtin", "-fno-math-errno", "-fno-trapping-math", "-fno-tree-slp-vectorize"}) {
    flags.emplace_back(flag);
  }
  if (options.fast_math) {
    // Not -ffast-math: see above.
    for (const char* flag :
         {"-fassociative-math", "-freciprocal-math", "-fno-signed-zeros", "-ffp-contract=fast"}) {
      flags.emplace_back(flag);
    }
  } else {
    flags.emplace_back("-ffp-contract=off");
  }
  return flags;
}

}  // namespace heddle::jit
