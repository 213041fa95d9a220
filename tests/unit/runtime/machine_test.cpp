// Machine profiles of backends: where they are from, and what takes them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "heddle/heddle.hpp"
#include "jit/machine/profile.hpp"
#include "jit/machine/profile_file.hpp"
#include "runtime/device/machine.hpp"
#include "tests/support/failure.hpp"
#include "tests/support/temp_directory.hpp"

namespace heddle {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;

/// A folder of kernels with a profile in it, and what was logged meanwhile.
class KeptMachineTest : public testing::Test {
 protected:
  KeptMachineTest() {
    kept_.part_ns = 1;  // parts of 16 KiB
    kept_.line_transfer_ns = 1;
    file_ = jit::keep_machine(folder_, kept_);
    set_log_hook([this](LogLevel, std::string_view line) { logged_.emplace_back(line); });
  }
  ~KeptMachineTest() override { set_log_hook({}); }

  [[nodiscard]] BackendOptions options(bool cache = true) const {
    BackendOptions options;
    options.name = "sync_cc";
    options.cache = cache;
    options.cache_dir = folder_;
    return options;
  }
  /// Whether the schedule of a kernel that loads and stores 64 KiB has parts.
  static bool has_parts(const Backend& backend) {
    const Tensor x("x", f32, {8, 1024}), y("y", f32, {8, 1024});
    const Index i, j;
    Program twice("twice");
    twice << (y(i, j) = exp(x(i, j)));
    return backend.compile(twice).loop_text().find("parallel") != std::string::npos;
  }

  const TempDirectory directory_;
  const std::string folder_ = (directory_.path() / "cache").string();
  MachineProfile kept_;
  std::filesystem::path file_;
  std::vector<std::string> logged_;
};

// W2: what was measured is taken, by schedules and the scheduler; without the cache nothing is read
TEST_F(KeptMachineTest, IsTaken) {
  const Backend backend = Backend::open(options());
  EXPECT_EQ(backend.machine(), kept_);
  EXPECT_TRUE(has_parts(backend));
  BackendOptions taken = options();
  rt::take_machine(taken);
  EXPECT_EQ(taken.scheduling.profile.slots_ahead, 1u);
  const Backend without = Backend::open(options(false));
  EXPECT_EQ(without.machine(), jit::usual_profile(jit::native_target().isa));
  EXPECT_FALSE(has_parts(without));
  EXPECT_THAT(logged_, IsEmpty());
}

// W2: what the program says wins
TEST_F(KeptMachineTest, OptionsWin) {
  BackendOptions asked = options();
  asked.machine = MachineProfile{.line_transfer_ns = 18};
  EXPECT_EQ(Backend::open(asked).machine(), *asked.machine);
  EXPECT_FALSE(has_parts(Backend::open(asked)));
  rt::take_machine(asked);
  EXPECT_EQ(asked.scheduling.profile.slots_ahead, 2u);
  BackendOptions kernels = options();
  kernels.kernels = KernelProfile();
  EXPECT_FALSE(has_parts(Backend::open(kernels)));
  BackendOptions scheduling = options();
  scheduling.scheduling.profile.slots_ahead = 3;
  rt::take_machine(scheduling);
  EXPECT_EQ(scheduling.scheduling.profile, SchedulerProfile{.slots_ahead = 3});
  BackendOptions own = options();
  own.scheduler = Scheduler();
  rt::take_machine(own);
  EXPECT_EQ(own.scheduling.profile, SchedulerProfile());
  EXPECT_EQ(Backend::open(own).machine(), kept_);
}

// W2, bad input: a file that is not whole is told of, and not used
TEST_F(KeptMachineTest, DamageIsLogged) {
  std::ofstream(file_, std::ios::app) << "more";
  EXPECT_EQ(Backend::open(options()).machine(), jit::usual_profile(jit::native_target().isa));
  EXPECT_THAT(logged_, Contains(AllOf(HasSubstr(file_.string()), HasSubstr("is not used: it is "
                                                                           "damaged"))));
}

// W2, bad input: values that no machine has are refused by name
TEST_F(KeptMachineTest, NonsenseIsRefused) {
  BackendOptions asked = options();
  asked.machine = MachineProfile{.memory_load_ns = -1};
  const Status status = failure([&] { static_cast<void>(Backend::open(asked)); });
  EXPECT_EQ(status.code(), ErrorCode::invalid_argument);
  EXPECT_THAT(status.to_string(), HasSubstr("BackendOptions::machine.memory_load_ns is -1 "));
}

}  // namespace
}  // namespace heddle
