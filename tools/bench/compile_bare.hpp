// Compilers and the loader without heddle: the anchors of heddle's compiles. One thread.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "jit/toolchain/compiler.hpp"
#include "tools/bench/harness.hpp"

namespace heddle::bench {

/// A directory, removed with its contents by the destructor.
class BenchDirectory {
 public:
  BenchDirectory();
  ~BenchDirectory();
  BenchDirectory(const BenchDirectory&) = delete;
  BenchDirectory& operator=(const BenchDirectory&) = delete;
  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }

 private:
  std::filesystem::path path_;
};

/// Units as files in a directory, in the form that the named compiler takes.
class BareUnits {
 public:
  BareUnits(const std::string& compiler, const std::vector<jit::CompileUnit>& units);

  /// Compiles units one after another until `length` is over, every unit at least once, and loads
  /// the results; returns ns per kernel. Throws Error(unavailable) when the compiler fails.
  [[nodiscard]] double compile(nanoseconds length) const;
  /// Loads the libraries that compile() left and looks up their kernels, for `length`; returns ns
  /// per kernel.
  [[nodiscard]] double load(nanoseconds length) const;

 private:
  struct Unit {
    std::filesystem::path source, library;
    std::vector<std::string> symbols;
  };
  [[nodiscard]] double compile_by_gccjit(nanoseconds length) const;

  std::string compiler_;
  BenchDirectory directory_;
  std::vector<Unit> units_;
  std::size_t kernels_ = 0;
};

}  // namespace heddle::bench
