// Compilers with a kernel cache of a test's own. One thread.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "adder.hpp"
#include "compilers.hpp"
#include "jit/cache/kernel_cache.hpp"
#include "scratch.hpp"

namespace heddle::jit::testing {

/// A directory for a cache, options that use it, and what was said about it.
class CacheScratch {
 public:
  explicit CacheScratch(std::string compiler = "cc") : compiler_(std::move(compiler)) {
    options = scratch.options();
    options.cache_dir = scratch.path() / "cache";
    options.warn = [this](const std::string& line) { warnings.push_back(line); };
  }

  [[nodiscard]] std::shared_ptr<const Compiler> open() const {
    return compiler_ == "gccjit" ? make_gccjit_compiler(options) : make_cc_compiler(options);
  }
  /// By a compiler of its own, as another process would: compiles or loads, runs, and tells what
  /// happened.
  [[nodiscard]] KernelCacheCounters use(int value) const {
    const auto compiler = open();
    EXPECT_EQ(run_adder(*compiler->compile(adder_unit(value)), load_options()), 1 + value);
    return compiler->counters();
  }
  [[nodiscard]] dev::LoadOptions load_options() const {
    dev::LoadOptions load;
    load.temp_dir = options.temp_dir;
    return load;
  }
  [[nodiscard]] KernelCache cache() const { return KernelCache({options.cache_dir}); }
  /// The entries' files, versions of compilers aside.
  [[nodiscard]] std::vector<std::filesystem::path> entries() const {
    std::vector<std::filesystem::path> paths;
    for (const CacheFile& file : KernelCache({options.cache_dir}).list()) {
      if (!file.info.starts_with("version of")) paths.push_back(options.cache_dir / file.name);
    }
    return paths;
  }

  Scratch scratch;
  ToolOptions options;
  std::vector<std::string> warnings;

 private:
  std::string compiler_;
};

}  // namespace heddle::jit::testing
