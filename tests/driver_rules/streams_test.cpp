// Rules of streams: the order of their work, the legacy default stream, and their end.
#include <atomic>

#include "tests/driver_rules/rules_fixture.hpp"

namespace heddle::driver_rules {
namespace {

class StreamRulesTest : public RulesTest {};

// CUDA C++ Programming Guide, Streams: "A stream is a sequence of commands that execute in order."
TEST_F(StreamRulesTest, WorkIsInTheOrderOfTheCalls) {
  const Work work;
  const GpuNumber x(1), y;
  std::int64_t in_x = 1, in_y = 0;
  for (std::int64_t k = 1; k <= 50; ++k) {
    work.launch("add", {x.address(), static_cast<std::uint64_t>(k)});
    work.launch("scale", {x.address(), 3});
    work.copy(y.address(), x.address());
    work.fill(x.address() + 2, 0, 6);
    in_y = (in_x + k) * 3;
    in_x = in_y & 0xFFFF;
  }
  work.synchronize();
  EXPECT_EQ(x.value(), in_x);
  EXPECT_EQ(y.value(), in_y);
}

// Stream Management, cuStreamCreate: CU_STREAM_NON_BLOCKING "specifies that work running in the
// created stream may run concurrently with work in stream 0 (the NULL stream), and that the created
// stream should perform no implicit synchronization with stream 0."
TEST_F(StreamRulesTest, NonBlockingStreamsPassTheLegacyStream) {
  const auto legacy = Work::legacy();
  const Work work;
  const GpuNumber x;
  Gate gate;
  gate.hold(*legacy);
  const Mark held(*legacy);
  work.launch("add", {x.address(), 5});
  Mark(work).synchronize();
  EXPECT_EQ(held.query(), not_ready);
  gate.open();
  held.synchronize();
  EXPECT_EQ(x.value(), 5);
}

// Stream synchronization behavior, legacy default stream: "Once an action is taken on the legacy
// stream all blocking streams wait" for it, and it waits for theirs.
TEST_F(StreamRulesTest, BlockingStreamsWaitForTheLegacyStream) {
  const auto legacy = Work::legacy();
  const Work blocking(0);
  const GpuNumber x(1);
  Gate gate;
  gate.hold(*legacy);
  legacy->launch("add", {x.address(), 1});
  blocking.launch("scale", {x.address(), 10});
  const Mark after(blocking);
  EXPECT_TRUE(after.stays_outstanding());
  gate.open();
  after.synchronize();
  EXPECT_EQ(x.value(), 20);
}

TEST_F(StreamRulesTest, TheLegacyStreamWaitsForBlockingStreamsAlone) {
  const auto legacy = Work::legacy();
  const Work blocking(0), other;
  const GpuNumber x(1);
  Gate gate, beside;
  beside.hold(other);
  gate.hold(blocking);
  blocking.launch("add", {x.address(), 1});
  legacy->launch("scale", {x.address(), 10});
  const Mark after(*legacy);
  EXPECT_TRUE(after.stays_outstanding());
  gate.open();
  after.synchronize();
  EXPECT_EQ(x.value(), 20);
}

// Stream Management, cuStreamSynchronize: "Waits until the device has completed all operations in
// the stream specified by hStream."
TEST_F(StreamRulesTest, SynchronizeWaitsForTheWork) {
  const Work work;
  const GpuNumber x;
  Gate gate;
  std::atomic<bool> opened = false;
  gate.hold(work);
  work.launch("add", {x.address(), 1});
  std::thread later([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    opened = true;
    gate.open();
  });
  work.synchronize();
  EXPECT_TRUE(opened);
  later.join();
  EXPECT_EQ(x.value(), 1);
}

// Stream Management, cuStreamDestroy: "In case the device is still doing work in the stream hStream
// when cuStreamDestroy() is called, the function will return immediately and the resources
// associated with hStream will be released automatically once the device has completed all work in
// hStream."
TEST_F(StreamRulesTest, DestroyedStreamsEndTheirWork) {
  Work work;
  const GpuNumber x;
  Gate gate;
  gate.hold(work);
  work.launch("add", {x.address(), 7});
  const Mark after(work);
  work.destroy();
  EXPECT_EQ(after.query(), not_ready);
  gate.open();
  after.synchronize();
  EXPECT_EQ(x.value(), 7);
}

// Stream Management, cuStreamCreate: valid flags are CU_STREAM_DEFAULT and CU_STREAM_NON_BLOCKING;
// it returns CUDA_ERROR_INVALID_VALUE for others.
TEST_F(StreamRulesTest, OtherFlagsAreRefused) {
  Stream stream = nullptr;
  EXPECT_EQ(driver.stream_create(&stream, 6), invalid_value);
}

}  // namespace
}  // namespace heddle::driver_rules
