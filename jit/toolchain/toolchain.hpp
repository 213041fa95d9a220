// Toolchain: one way to make a library from a unit; the part in which cc and gccjit differ.
// CompileService adds the caches. Any thread.
#pragma once

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "jit/cache/kernel_cache.hpp"
#include "jit/system/process.hpp"
#include "jit/toolchain/compiler.hpp"

namespace heddle::jit {

/// A unit as text.
struct EmittedUnit {
  std::string source;   ///< the compiler's input, with names for people
  std::string essence;  ///< the source without names: equal texts make equal libraries
  std::string kind{host_image_kind()};  ///< of the resulting image
  std::vector<LaunchShape> shapes{};    ///< of the kernels; empty: plain functions
};

/// The compiled unit from `library`, checked; the compile began at `start`. Throws
/// Error(compile_failed) with the fault of the library.
[[nodiscard]] Compiled compiled(const CompileUnit& unit, const EmittedUnit& emitted,
                                Library library, std::chrono::steady_clock::time_point start);

/// A compiler's answer about its version.
struct ToldVersion {
  std::string text;               ///< one line
  std::filesystem::path library;  ///< a file that the compiler found itself; empty: none
};

/// The version of one compiler while its files are unchanged: kept in memory, and in the kernel
/// cache for other processes. Any thread.
class VersionMemory {
 public:
  explicit VersionMemory(std::string_view toolchain) : toolchain_(toolchain) {}
  /// The version text of a compiler whose files have these stamps; the stamp of the library is
  /// checked too. Calls `ask` when neither place knows the version, or the library has changed.
  /// nullopt when `ask` throws, except that cancelled and deadline errors pass through.
  [[nodiscard]] std::optional<std::string> find(KernelCache& cache, const std::string& stamps,
                                                const std::function<ToldVersion()>& ask);

 private:
  /// Text, path and stamp of the library: one line each, the form on disk.
  struct Note {
    std::string text, library, stamp;
    [[nodiscard]] bool is_current() const;
  };
  [[nodiscard]] static std::optional<Note> parse(std::span<const std::byte> bytes);

  const std::string toolchain_;
  std::mutex mutex_;
  std::string stamps_;        // guarded by mutex_: the stamps of the note's compiler
  std::optional<Note> note_;  // guarded by mutex_
};

/// The inputs of a compile besides the unit's text.
struct Recipe {
  std::string options;
  std::string files;  ///< the compiler's files, by file_stamp()
};

/// Where dumps are asked for, writes the unoptimised loops of a unit as UNIT.unoptimized.loop.
/// Throws Error(unavailable).
void dump_unoptimized(const ToolOptions& options, const CompileUnit& unit);

class Toolchain {
 public:
  virtual ~Toolchain() = default;
  [[nodiscard]] virtual std::string_view name() const noexcept = 0;
  // As in Compiler.
  [[nodiscard]] virtual Status available() const = 0;
  [[nodiscard]] virtual std::string describe() const = 0;

  /// Throws invalid_argument for an illegal unit.
  [[nodiscard]] virtual EmittedUnit emit(const CompileUnit& unit) const = 0;
  /// Looks at the compiler's files; runs nothing.
  [[nodiscard]] virtual Recipe recipe() const = 0;
  /// True if the recipe covers every input of a compile; if false, every unit is compiled anew.
  [[nodiscard]] virtual bool recipe_is_whole() const { return true; }
  /// The version of the compiler whose files are `files`: asked once, then remembered in `cache`
  /// while the files are unchanged. nullopt when the compiler does not answer.
  [[nodiscard]] virtual std::optional<std::string> version(KernelCache& cache,
                                                           const std::string& files,
                                                           const Patience& patience) const = 0;
  /// Throws like Compiler::compile().
  [[nodiscard]] virtual Compiled build(const CompileUnit& unit, const EmittedUnit& emitted,
                                       const Patience& patience) const = 0;
};

/// ok, or the refused flag among the user's flags for the cc compiler, with the reason and an
/// alternative. Refused are flags that change the instruction set, which the Target decides, or the
/// mode of the whole process.
[[nodiscard]] Status check_cflags(const std::vector<std::string>& flags);
/// True if no flag names a file, or may name one: the key would not cover the file's content.
[[nodiscard]] bool are_self_contained(const std::vector<std::string>& flags);

/// Flags of the cc compiler, without the user's flags. Both CPU compilers must give the same bits:
/// nothing is contracted, and functions of the C library are called, never folded or replaced.
/// Strict aliasing is off because views may access one buffer through two types.
[[nodiscard]] std::vector<std::string> cc_flags(const ToolOptions& options);

/// The public compiler: `toolchain` behind a cache in memory and a cache on disk.
[[nodiscard]] std::shared_ptr<const Compiler> make_compile_service(
    std::unique_ptr<const Toolchain> toolchain, const ToolOptions& options);

}  // namespace heddle::jit
