// Compilers: from loop kernels to images. A Compiler turns a unit (one or more kernels) into an
// Image, which devices load. No compiler runs inside the host process. Any thread may call any
// function.
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

/// The places of the compilers and the settings of a compile; filled by runtime/config from the
/// environment.
struct ToolOptions {
  std::string cc = "cc";            ///< the system compiler: a command, found on PATH
  std::vector<std::string> cflags;  ///< added after heddle's own flags
  std::filesystem::path
      compile_helper;            ///< heddle-compile; empty: searched (see toolchain/gccjit.cpp)
  std::filesystem::path nvrtc;   ///< NVRTC's library; empty: searched by heddle-compile
  std::uint32_t cuda_major = 0;  ///< of the driver's version: the version of NVRTC to try first
  std::chrono::milliseconds compile_timeout{60'000};
  std::filesystem::path temp_dir;  ///< empty: TMPDIR's value as config read it, else /tmp
  std::filesystem::path
      dump_dir;                ///< set: every unit's loop texts and emitted source are kept here
  int optimization_level = 3;  ///< 0..3
  Target target = native_target();  ///< the instruction set for lanes loops
  bool fast_math = false;           ///< reassociation, reciprocals, contraction; no signed zeros
  /// "NAME=value" for compilers and helpers; overrides the environment of this process.
  std::vector<std::string> environment;
  std::filesystem::path cache_dir;  ///< holds the kernel cache; empty: no cache
  std::uint64_t cache_bytes_max = std::uint64_t{256} << 20;
  std::function<void(const std::string&)> warn;  ///< gets a line for each problem of the cache
};

/// A compiled unit.
struct Compiled {
  std::string name;                 ///< the unit's name; for equal units, the name of the first
  Image image;                      ///< its kernels in the unit's order
  std::vector<std::string> labels;  ///< the kernels' labels, for people
  std::string source;               ///< the compiled text: C, or loop text for gccjit
  std::chrono::nanoseconds time{};
};

class Compiler {
 public:
  virtual ~Compiler() = default;
  [[nodiscard]] virtual std::string_view name() const noexcept = 0;  ///< "cc", "gccjit", "nvrtc"
  /// ok, or why the compiler is not available and how to fix that. Runs nothing.
  [[nodiscard]] virtual Status available() const = 0;
  /// One line: command and version, for `heddle info`. Runs the compiler; throws Error where the
  /// compiler is absent or does not answer.
  [[nodiscard]] virtual std::string describe() const = 0;
  /// The longest time of a compile, the earlier stages included; nullopt: unlimited.
  [[nodiscard]] virtual std::optional<std::chrono::milliseconds> timeout() const noexcept {
    return std::nullopt;
  }
  /// The target of the kernels' schedules; without vectors, kernels are not vectorised.
  [[nodiscard]] virtual Target target() const noexcept { return {}; }
  /// True if an earlier result for a program may be reused without calling compile(); false where
  /// every compile must be visible (dumps), or may depend on other files. In a forked process,
  /// throws like compile().
  [[nodiscard]] virtual bool reuses() const { return true; }
  /// Counts such a reuse, like a memory hit of compile().
  virtual void count_reuse() const noexcept {}
  /// Compiles a unit, or finds the result. Threads that ask for equal units share one compile,
  /// whose result stays in memory while in use, and is stored on disk (cache/kernel_cache.hpp). The
  /// image is checked. Throws compile_failed with the compiler's output (bounded) and the path of
  /// the kept source, deadline when the time is over, cancelled when asked to stop, unavailable in
  /// a process forked from the compiler's own process. A failed compile leaves no files behind, and
  /// later compiles work.
  [[nodiscard]] virtual std::shared_ptr<const Compiled> compile(
      const CompileUnit& unit, const CompileLimits& limits) const = 0;
  [[nodiscard]] std::shared_ptr<const Compiled> compile(const CompileUnit& unit) const {
    return compile(unit, CompileLimits{});
  }
  /// Counters of cache hits and compiles.
  [[nodiscard]] virtual KernelCacheCounters counters() const noexcept { return {}; }
};

[[nodiscard]] std::shared_ptr<const Compiler> make_cc_compiler(const ToolOptions& options);
[[nodiscard]] std::shared_ptr<const Compiler> make_gccjit_compiler(const ToolOptions& options);
/// For the GPU given by options.target.
[[nodiscard]] std::shared_ptr<const Compiler> make_nvrtc_compiler(const ToolOptions& options);
/// A compiler that is not available, with the reason.
[[nodiscard]] std::shared_ptr<const Compiler> make_absent_compiler(std::string name, Status why);
/// Compiles nothing: the images are of null_image_kind. For the null device.
[[nodiscard]] std::shared_ptr<const Compiler> make_null_compiler();

}  // namespace heddle::jit
