// What tests of compiles that go on meanwhile share: a compiler of their own.
#pragma once

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "heddle/heddle.hpp"
#include "tests/support/temp_directory.hpp"

namespace heddle {

namespace fs = std::filesystem;

/// A compiler that hangs while `hang` exists and fails on kernels called "bad", and a cache, both
/// in a directory of the test's own.
class AsyncCompileTest : public testing::Test {
 protected:
  AsyncCompileTest() {
    const fs::path tool = path_ / "cc";
    std::ofstream(tool)
        << "#!/bin/sh\n"
        << "if [ -e " << path_.string() << "/hang ]; then echo > " << path_.string()
        << "/began; exec sleep 1000; fi\n"
        << "for file; do case $file in *.c) grep -q bad_ \"$file\" && {\n"
        << "  echo \"no such luck with $(grep -o 'bad_[a-z]*' \"$file\" | head -1)\""
        << "; exit 1; };; esac; done\nexec cc \"$@\"\n";
    chmod(tool.c_str(), 0755);
  }

  [[nodiscard]] BackendOptions options() const {
    BackendOptions options;
    options.name = "cc";
    options.cc = (path_ / "cc").string();
    options.cache = true;
    options.cache_dir = (path_ / "cache").string();
    return options;
  }
  void hang() const { std::ofstream(path_ / "hang") << "yes"; }
  void mend() const { fs::remove(path_ / "hang"); }
  void wait_until_it_hangs() const {
    while (!fs::exists(path_ / "began")) std::this_thread::yield();
  }

  static Program adder(const std::string& name, const Tensor& x, int value) {
    Index i;
    Program p(name);
    p << (x(i) += value);
    return p;
  }

  const TempDirectory directory_;
  const fs::path path_ = directory_.path();
  const Tensor x_{"x", i32, {4}};
};

}  // namespace heddle
