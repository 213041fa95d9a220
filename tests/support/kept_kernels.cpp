// A cache of kernels that all suites share: rows of one compiler differ in who runs a program, and
// most of a suite's time would go to compiling it again for each of them.
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
