// Streams by themselves: what a settle waits for, and what that costs.
#include <time.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <optional>

#include "runtime/queue/stream.hpp"
#include "tests/unit/runtime/asynchronous_fixture.hpp"
#include "tests/unit/scheduler/allocations.hpp"

namespace heddle {
namespace {

using namespace std::chrono_literals;
using sched::Mode;
using testing::HasSubstr;

class StreamTest : public testing::TestWithParam<Mode> {
 protected:
  ~StreamTest() override { physical->resume(); }
  static std::shared_ptr<rt::Stream> open(const std::shared_ptr<AsynchronousDevice>& on) {
    std::shared_ptr<rt::Stream> stream;
    EXPECT_TRUE(rt::Stream::open(on, &stream).ok());
    return stream;
  }
  /// A task that has asked the stream for something, and settles.
  Event settle(const sched::TaskDevice& on, bool has_memory) {
    return on.submit("settle", [this, has_memory]() -> Status {
      if (Status status = stream->queue().zero(bytes.data(), bytes.size()); !status.ok())
        return status;
      std::optional<NoMemory> none;
      if (!has_memory) none.emplace();
      has_asked = true;
      return stream->settle();
    });
  }
  /// How long processors worked for this process while it waited.
  /// A thread that does not sleep takes most of this time, also under sanitizers.
  static constexpr std::chrono::nanoseconds awake = 300ms;
  std::chrono::nanoseconds work_while_held() {
    while (!has_asked) std::this_thread::sleep_for(1ms);
    std::this_thread::sleep_for(20ms);
    const std::chrono::nanoseconds before = processor_time();
    std::this_thread::sleep_for(awake);
    return processor_time() - before;
  }
  static std::chrono::nanoseconds processor_time() {
    timespec time{};
    ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
  }

  const std::shared_ptr<AsynchronousDevice> physical = std::make_shared<AsynchronousDevice>();
  const std::shared_ptr<rt::Stream> stream = open(physical);
  std::array<std::byte, 64> bytes{};
  std::atomic<bool> has_asked{false};
  Scheduler scheduler;
};
INSTANTIATE_TEST_SUITE_P(Modes, StreamTest, testing::Values(Mode::threaded, Mode::pooled),
                         [](const auto& mode) {
                           return mode.param == Mode::pooled ? "pooled" : "threaded";
                         });

// S23, D15: a settle waits for what was joined, and tells how that went; the next one does not
TEST_P(StreamTest, SettlesWhatItJoined) {
  const auto other_physical =
      std::make_shared<AsynchronousDevice>(AsynchronousOptions{}, physical.get());
  const auto other = open(other_physical);
  for (const bool fails : {true, false}) {
    physical->hold();
    bytes.fill(std::byte{7});
    EXPECT_TRUE(other->queue().zero(bytes.data(), bytes.size()).ok());
    EXPECT_TRUE(stream->join(*other).ok());
    if (fails) physical->fail_next_end();
    std::thread resumes([&] {
      std::this_thread::sleep_for(5ms);
      physical->resume();
    });
    const Status settled = stream->settle();
    if (fails) {
      EXPECT_THAT(settled.to_string(), HasSubstr("the asynchronous device broke"));
    } else {
      EXPECT_EQ(std::ranges::count(bytes, std::byte{0}), 64);
    }
    resumes.join();
    EXPECT_TRUE(stream->settle().ok());
    EXPECT_TRUE(other->settle().ok());
  }
}

// S5, S13: a task whose device nobody has any more sleeps while a device hangs that it waits for
TEST_P(StreamTest, TasksOfDevicesThatWentSleep) {
  sched::DeviceOptions options;
  options.mode = GetParam();
  options.drain_max = 1ms;
  auto device = std::make_shared<sched::TaskDevice>(scheduler.new_device(options));
  sched::TaskDevice* const raw = device.get();
  sched::ExternalTimeline gate("gate");
  raw->wait(gate.next());
  raw->submit("last", [device = std::move(device)]() mutable { device.reset(); });
  physical->hold();
  const Event settled = settle(*raw, true);
  EXPECT_TRUE(gate.signal(1).ok());
  EXPECT_LT(work_while_held(), awake / 3);
  EXPECT_FALSE(settled.done());
  physical->resume();
  EXPECT_TRUE(settled.wait().ok());
}

// S5: so does one without memory to be woken, or to leave its thread to others
TEST_P(StreamTest, TasksWithoutMemorySleep) {
  sched::DeviceOptions options;
  options.mode = GetParam();
  const sched::TaskDevice device = scheduler.new_device(options);
  physical->hold();
  const Event settled = settle(device, false);
  EXPECT_LT(work_while_held(), awake / 3);
  EXPECT_FALSE(settled.done());
  physical->resume();
  EXPECT_TRUE(settled.wait().ok());
}

}  // namespace
}  // namespace heddle
