// Compilers: from loop kernels to images. A Compiler turns a unit (one or more kernels) into an
// Image, which devices load; it never runs a compiler inside the host process. All functions may be
// called from any thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "heddle/image.hpp"
#include "heddle/kernel_cache.hpp"
#include "heddle/status.hpp"
#include "jit/emit/unit.hpp"
#include "jit/system/limits.hpp"
#include "jit/vector/target.hpp"

namespace heddle::jit {

/// Where compilers are and how they are run; filled by runtime/config from the environment.
struct ToolOptions {
  std::string cc = "cc";            ///< the system compiler: a command, found on PATH
  std::vector<std::string> cflags;  ///< added after heddle's own flags
  std::filesystem::path
      compile_helper;            ///< heddle-compile; empty: searched (see toolchain/gccjit.cpp)
  std::filesystem::path nvrtc;   ///< NVRTC's library; empty: searched by heddle-compile
  std::uint32_t cuda_major = 0;  ///< of the driver's version: which NVRTC is searched first
  std::chrono::milliseconds compile_timeout{60'000};
  std::filesystem::path temp_dir;  ///< empty: TMPDIR's value as config read it, else /tmp
  std::filesystem::path
      dump_dir;                ///< set: every unit's loop texts and emitted source are kept here
  int optimization_level = 3;  ///< 0..3
  Target target = native_target();  ///< what lanes loops become
  bool fast_math = false;           ///< reassociation, reciprocals, contraction; no signed zeros
  /// "NAME=value" for compilers and helpers, over what this process's environment says.
  std::vector<std::string> environment;
  std::filesystem::path cache_dir;  ///< has the kernel cache; empty: there is none
  std::uint64_t cache_bytes_max = std::uint64_t{256} << 20;
  std::function<void(const std::string&)> warn;  ///< gets a line when the cache is in trouble
};

/// A unit, compiled.
struct Compiled {
  std::string name;  ///< the unit's; the first one's where several equal ones were asked for
  Image image;       ///< its kernels in the unit's order
  std::vector<std::string> labels;  ///< the kernels', for people
  std::string source;               ///< the text that was compiled: C, or loop text for gccjit
  std::chrono::nanoseconds time{};
};

class Compiler {
 public:
  virtual ~Compiler() = default;
  [[nodiscard]] virtual std::string_view name() const noexcept = 0;  ///< "cc", "gccjit", "nvrtc"
  /// Whether it is here, and if not why and what to do. Runs nothing.
  [[nodiscard]] virtual Status available() const = 0;
  /// One line: command and version, for `heddle info`. Asks it: throws Error where it does not
  /// tell, which no compiler that works does, or is not here.
  [[nodiscard]] virtual std::string describe() const = 0;
  /// What a compile takes at most, with the stages before it; none: no end.
  [[nodiscard]] virtual std::optional<std::chrono::milliseconds> timeout() const noexcept {
    return std::nullopt;
  }
  /// What kernels are scheduled for; without vectors they are left as they are.
  [[nodiscard]] virtual Target target() const noexcept { return {}; }
  /// Whether what it made of a program may be taken again without asking it; false where each
  /// compile is to be seen, or may find other files. Throws as compile() in a forked process.
  [[nodiscard]] virtual bool reuses() const { return true; }
  /// That was done: counts like what compile() itself finds in memory.
  virtual void count_reuse() const noexcept {}
  /// Compiles, or finds it done: the same unit is compiled once, by whichever threads ask for it,
  /// as long as somebody holds what came of it, and is then kept on disk (cache/kernel_cache.hpp).
  /// The image was checked. Throws compile_failed with the compiler's own words (bounded) and the
  /// path of the kept source, deadline when it took too long, cancelled when asked to stop,
  /// unavailable in a process forked from the one that made the compiler; leaves nothing behind and
  /// the next compile works.
  [[nodiscard]] virtual std::shared_ptr<const Compiled> compile(
      const CompileUnit& unit, const CompileLimits& limits) const = 0;
  [[nodiscard]] std::shared_ptr<const Compiled> compile(const CompileUnit& unit) const {
    return compile(unit, CompileLimits{});
  }
  /// What it found and what it compiled, so far.
  [[nodiscard]] virtual KernelCacheCounters counters() const noexcept { return {}; }
};

[[nodiscard]] std::shared_ptr<const Compiler> make_cc_compiler(const ToolOptions& options);
[[nodiscard]] std::shared_ptr<const Compiler> make_gccjit_compiler(const ToolOptions& options);
/// For the GPU that options.target is.
[[nodiscard]] std::shared_ptr<const Compiler> make_nvrtc_compiler(const ToolOptions& options);
/// One that cannot be had, and why.
[[nodiscard]] std::shared_ptr<const Compiler> make_absent_compiler(std::string name, Status why);
/// Compiles nothing: its images are of null_image_kind. For the null device.
[[nodiscard]] std::shared_ptr<const Compiler> make_null_compiler();

}  // namespace heddle::jit
