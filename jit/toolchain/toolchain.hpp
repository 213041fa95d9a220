// One way to make a library of a unit: what cc and gccjit differ in. CompileService puts the caches
// before it. Any thread.
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
  std::string source;                   ///< what the compiler is told, with names for people
  std::string essence;                  ///< the same without names: equal ones make equal libraries
  std::string kind{host_image_kind()};  ///< of the image that becomes of it
  std::vector<LaunchShape> shapes{};    ///< of its kernels; empty: they are called
};

/// The unit as the library that was made of it, checked; its compile began at `start`. Throws
/// Error(compile_failed) saying what is wrong with it.
[[nodiscard]] Compiled compiled(const CompileUnit& unit, const EmittedUnit& emitted,
                                Library library, std::chrono::steady_clock::time_point start);

/// What a compiler said of itself.
struct ToldVersion {
  std::string text;               ///< one line
  std::filesystem::path library;  ///< a file that it found by itself; empty: none
};

/// What one compiler said of itself, as long as its files are the same: kept in memory, and in the
/// kernel cache for other processes. Any thread.
class VersionMemory {
 public:
  explicit VersionMemory(std::string_view toolchain) : toolchain_(toolchain) {}
  /// The text of a compiler whose files have these stamps, and the stamp of the library: `ask` is
  /// called when neither place knows it, or the library has changed. Nothing when `ask` throws,
  /// unless for being cancelled or late.
  [[nodiscard]] std::optional<std::string> find(KernelCache& cache, const std::string& stamps,
                                                const std::function<ToldVersion()>& ask);

 private:
  /// Text, path and stamp of the library: a line each, as they are on disk.
  struct Note {
    std::string text, library, stamp;
    [[nodiscard]] bool is_current() const;
  };
  [[nodiscard]] static std::optional<Note> parse(std::span<const std::byte> bytes);

  const std::string toolchain_;
  std::mutex mutex_;
  std::string stamps_;        // guarded by mutex_: that the note is of
  std::optional<Note> note_;  // guarded by mutex_
};

/// What decides, besides its text, what becomes of a unit.
struct Recipe {
  std::string options;
  std::string files;  ///< that hold the compiler, by file_stamp()
};

/// Writes the loops of a unit as they were before they were optimised, as UNIT.unoptimized.loop,
/// where dumps are asked for. Throws Error(unavailable).
void dump_unoptimized(const ToolOptions& options, const CompileUnit& unit);

class Toolchain {
 public:
  virtual ~Toolchain() = default;
  [[nodiscard]] virtual std::string_view name() const noexcept = 0;
  // As those of Compiler.
  [[nodiscard]] virtual Status available() const = 0;
  [[nodiscard]] virtual std::string describe() const = 0;

  /// Throws invalid_argument for a unit that is illegal.
  [[nodiscard]] virtual EmittedUnit emit(const CompileUnit& unit) const = 0;
  /// Looks at the compiler's files; runs nothing.
  [[nodiscard]] virtual Recipe recipe() const = 0;
  /// Whether the recipe says all that becomes of a text; else every unit is compiled anew.
  [[nodiscard]] virtual bool recipe_is_whole() const { return true; }
  /// What the compiler of a recipe's `files` says it is: asked once, and then remembered in `cache`
  /// as long as they are the same. Nothing when it does not answer.
  [[nodiscard]] virtual std::optional<std::string> version(KernelCache& cache,
                                                           const std::string& files,
                                                           const Patience& patience) const = 0;
  /// Throws as Compiler::compile().
  [[nodiscard]] virtual Compiled build(const CompileUnit& unit, const EmittedUnit& emitted,
                                       const Patience& patience) const = 0;
};

/// ok, or which of the user's flags for the cc compiler is refused, why, and what to use instead:
/// those that change the instruction set, which is the Target's, or the mode of the whole process.
[[nodiscard]] Status check_cflags(const std::vector<std::string>& flags);
/// Whether no flag names a file, or may: its content would decide what is compiled, behind the key.
[[nodiscard]] bool are_self_contained(const std::vector<std::string>& flags);

/// Flags of the cc compiler, without the user's. Both CPU compilers must give the same bits:
/// nothing is contracted, and functions of the C library are called, never folded or replaced.
/// Strict aliasing is off because views may look at one buffer through two types.
[[nodiscard]] std::vector<std::string> cc_flags(const ToolOptions& options);

/// The compiler as its users know it: `toolchain` behind a cache in memory and one on disk.
[[nodiscard]] std::shared_ptr<const Compiler> make_compile_service(
    std::unique_ptr<const Toolchain> toolchain, const ToolOptions& options);

}  // namespace heddle::jit
