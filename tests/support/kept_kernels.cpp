// A kernel cache shared by every suite: rows of one compiler differ in the device that runs a
// program, and recompiling the program for each row would take most of a suite's time.
#include <gtest/gtest.h>

#include <cstdlib>
#include <optional>

#include "tests/support/temp_directory.hpp"

namespace heddle {
namespace {

class KeptKernels final : public testing::Environment {
  void SetUp() override {
    directory_.emplace();
    setenv("HEDDLE_CACHE_DIR", directory_->path().c_str(), 1);
    setenv("HEDDLE_CACHE", "on", 1);
  }
  void TearDown() override { directory_.reset(); }

  std::optional<TempDirectory> directory_;
};

[[maybe_unused]] const auto* const kept_kernels =
    testing::AddGlobalTestEnvironment(new KeptKernels);

}  // namespace
}  // namespace heddle
