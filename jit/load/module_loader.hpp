// From the bytes of a shared library to a Module: nothing is loaded that was not checked first, and
// what was checked is what is loaded: a sealed memory file, or where the system has none that can
// be loaded, a file that this user alone can reach. Any thread.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "heddle/status.hpp"
#include "jit/load/module.hpp"

namespace heddle::jit {

/// XXH3-128: finds damage, not malice.
struct Checksum {
  std::uint64_t high = 0, low = 0;
  friend bool operator==(const Checksum&, const Checksum&) = default;
};
[[nodiscard]] Checksum checksum(std::span<const std::byte> bytes) noexcept;

/// A shared library as a compiler made it.
struct Library {
  std::vector<std::byte> bytes;
  Checksum sum;  ///< of the bytes, taken as early as possible
};
/// No unit comes near this; a larger library is refused rather than read.
inline constexpr std::size_t library_bytes_max = std::size_t{256} << 20;

/// Whether the bytes are one complete ELF64 shared library for this machine; else what is wrong.
/// Checks the tables against the size of the file: dlopen of a cut file ends in SIGBUS.
[[nodiscard]] Status check_library(std::span<const std::byte> bytes);

/// What a loaded unit is besides its code.
struct ModuleInfo {
  std::string unit_name;
  std::vector<std::string> kernels;  ///< names, as in KernelSource
  std::string source;
  std::chrono::nanoseconds compile_time{};
  /// Set: the library is written here and loaded from here, where perf, gdb and objdump find the
  /// names of its functions. For debugging: a file can change between check and load.
  std::filesystem::path library_file{};
  /// Without a file: whether the kernels' names are written to perf's map (perf_map.hpp), and the
  /// descriptor is kept so that gdb finds the library.
  bool perf_map = false;
  std::filesystem::path temp_dir{};  ///< ToolOptions::temp_dir, where memory cannot be loaded from
};

/// Checks, seals, loads and resolves. Throws Error(compile_failed) saying what is wrong with the
/// library, unavailable or exhausted when the system refuses, which says nothing of the library.
[[nodiscard]] std::shared_ptr<const Module> load_module(const Library& library, ModuleInfo info);

}  // namespace heddle::jit
