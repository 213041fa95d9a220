// Memory of the machine, which all backends of the process share. Nothing here is ever touched: the
// devices wait until nobody has it any more, and its first values are not made.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <malloc.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>

#include "heddle/heddle.hpp"
#include "tests/support/failure.hpp"

namespace heddle {
namespace {

using testing::AllOf;
using testing::HasSubstr;

/// A device on which nothing runs.
class IdleDevice {
 public:
  explicit IdleDevice(const Backend& backend)
      : device(backend.physical_device(0).new_virtual_device()), gate_("gate") {
    device.wait(gate_.next());
  }
  /// What waits ends as cancelled, so memory without a handle is free.
  void drop_tasks() const {
    device.cancel_pending();
    static_cast<void>(device.timeline().await());
  }
  const Device device;

 private:
  sched::ExternalTimeline gate_;
};

std::int64_t machine_bytes() {
  return static_cast<std::int64_t>(::sysconf(_SC_PHYS_PAGES)) * ::sysconf(_SC_PAGESIZE);
}

// D3: devices of one memory space, of all backends, together get what the machine has and no more:
// `exhausted` answers, not the kernel. What one keeps for reuse makes room for another.
TEST(MachineMemoryTest, AllBackendsTogetherStayWithinIt) {
  ::mallopt(M_PERTURB, 0);  // meson sets MALLOC_PERTURB_, which touches all that is allocated
  const Backend threaded = Backend::open("cc"), pooled = Backend::open("pooled_cc");
  const IdleDevice here(threaded), beside(threaded), there(pooled);
  const IdleDevice* const devices[] = {&here, &beside, &there};
  const ArrayType part{u8, {machine_bytes() / 5}};
  {
    std::vector<Buffer> taken;
    Status refused;
    while (refused.ok() && taken.size() < 12) {
      refused = failure(
          [&] { taken.push_back(Buffer::allocate(devices[taken.size() % 3]->device, part)); });
    }
    EXPECT_LE(taken.size(), 5u);
    EXPECT_GE(taken.size(), 1u);
    EXPECT_EQ(refused.code(), ErrorCode::exhausted);
    EXPECT_THAT(refused.to_string(),
                AllOf(HasSubstr(part.to_string()), HasSubstr(std::to_string(*part.num_bytes())),
                      HasSubstr("the limit is "), HasSubstr(here.device.name())));
  }
  for (const IdleDevice* const idle : devices) idle->drop_tasks();
  EXPECT_GE(here.device.statistics().bytes_cached, static_cast<std::uint64_t>(*part.num_bytes()));
  {
    const IdleDevice last(pooled);
    static_cast<void>(Buffer::allocate(last.device, {u8, {machine_bytes() / 2}}));
    last.drop_tasks();
  }
  EXPECT_EQ(here.device.statistics().bytes_cached, 0u);
}

// D3: the limit on the address space bounds them too, as it stands when memory is asked for
TEST(MachineMemoryTest, AddressSpaceIsABound) {
  const IdleDevice idle(Backend::open("cc"));
  std::int64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  const std::int64_t bound = pages * ::sysconf(_SC_PAGESIZE) + (std::int64_t{1} << 30);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_AS, &before), 0);
  const rlimit tight{static_cast<rlim_t>(bound), before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_AS, &tight), 0);
  const Status refused =
      failure([&] { static_cast<void>(Buffer::allocate(idle.device, {u8, {bound + 1}})); });
  ASSERT_EQ(::setrlimit(RLIMIT_AS, &before), 0);
  EXPECT_EQ(refused.code(), ErrorCode::exhausted);
  // Sanitizers map more than the machine has.
  const bool tightest = bound < machine_bytes();
  EXPECT_THAT(refused.to_string(),
              HasSubstr(tightest ? std::to_string(bound) + " bytes (RLIMIT_AS)" : "the limit is "));
  idle.drop_tasks();
}

// D3: a bound from the environment; that of the program wins
TEST(MachineMemoryTest, TheEnvironmentBoundsDevices) {
  ::setenv("HEDDLE_BYTES_MAX", "5000", 1);
  const IdleDevice bounded(Backend::open("cc"));
  BackendOptions options;
  options.name = "cc";
  options.bytes_max = 10'000;
  const IdleDevice asked(Backend::open(options));
  ::setenv("HEDDLE_BYTES_MAX", "5k", 1);
  const Status malformed = failure([] { static_cast<void>(Backend::open("cc")); });
  ::unsetenv("HEDDLE_BYTES_MAX");
  const auto refusal = [](const IdleDevice& idle, std::int64_t bytes) {
    return failure([&] { static_cast<void>(Buffer::allocate(idle.device, {u8, {bytes}})); });
  };
  EXPECT_TRUE(refusal(bounded, 4900).ok());
  EXPECT_THAT(refusal(bounded, 5100).to_string(),
              AllOf(HasSubstr("5000 bytes"), HasSubstr("HEDDLE_BYTES_MAX")));
  EXPECT_TRUE(refusal(asked, 5100).ok());
  EXPECT_EQ(refusal(asked, 11'000).code(), ErrorCode::exhausted);
  EXPECT_EQ(malformed.code(), ErrorCode::invalid_argument);
  EXPECT_THAT(malformed.to_string(), AllOf(HasSubstr("HEDDLE_BYTES_MAX"), HasSubstr("'5k'")));
  for (const IdleDevice* const idle : {&bounded, &asked}) idle->drop_tasks();
}

}  // namespace
}  // namespace heddle
