// Rules of events: the work that an event captures, and streams that wait for events.
#include "tests/driver_rules/rules_fixture.hpp"

namespace heddle::driver_rules {
namespace {

class EventRulesTest : public RulesTest {};

// Event Management, cuEventRecord: "Before the first call to cuEventRecord(), an event represents
// an empty set of work, so for example cuEventQuery() would return CUDA_SUCCESS."
TEST_F(EventRulesTest, NothingIsCapturedBeforeTheFirstRecord) {
  const Mark never;
  EXPECT_CUDA(never.query());
  never.synchronize();
  const Work work;
  const GpuNumber x;
  work.wait(never.event());
  work.launch("add", {x.address(), 1});
  work.synchronize();
  EXPECT_EQ(x.value(), 1);
}

// Event Management, cuEventRecord: "Captures in hEvent the contents of hStream at the time of this
// call. [...] Uses of hStream after this call do not modify hEvent."
TEST_F(EventRulesTest, TheWorkBeforeTheRecordIsCaptured) {
  const Work work;
  const GpuNumber x;
  Gate first, later;
  first.hold(work);
  work.launch("add", {x.address(), 1});
  const Mark mark(work);
  later.hold(work);
  EXPECT_TRUE(mark.stays_outstanding());
  first.open();
  mark.synchronize();
  EXPECT_CUDA(mark.query());
  EXPECT_EQ(x.value(), 1);
}

// Event Management, cuEventRecord: it "can be called multiple times on the same event and will
// overwrite the previously captured state."
TEST_F(EventRulesTest, RecordsReplaceEarlierRecords) {
  const Work one, other;
  Gate gate;
  gate.hold(one);
  const Mark mark(one);
  EXPECT_EQ(mark.query(), not_ready);
  mark.record(other);
  mark.synchronize();
  mark.record(one);
  EXPECT_EQ(mark.query(), not_ready);
}

// Event Management, cuEventRecord: "Other APIs such as cuStreamWaitEvent() use the most recently
// captured state at the time of the API call, and are not affected by later calls to
// cuEventRecord()."
TEST_F(EventRulesTest, LaterRecordsDoNotEndAWait) {
  const Work one, other, waiting;
  const GpuNumber x(1);
  Gate gate;
  gate.hold(one);
  one.launch("add", {x.address(), 1});
  const Mark mark(one);
  waiting.wait(mark.event());
  waiting.launch("scale", {x.address(), 10});
  const Mark after(waiting);
  mark.record(other);
  mark.synchronize();
  EXPECT_TRUE(after.stays_outstanding());
  gate.open();
  after.synchronize();
  EXPECT_EQ(x.value(), 20);
}

TEST_F(EventRulesTest, LaterRecordsDoNotProlongAWait) {
  const Work one, waiting;
  Gate first, later;
  first.hold(one);
  const Mark mark(one);
  waiting.wait(mark.event());
  const Mark after(waiting);
  later.hold(one);
  mark.record(one);
  EXPECT_TRUE(after.stays_outstanding());
  first.open();
  after.synchronize();
  EXPECT_EQ(mark.query(), not_ready);
}

// Stream Management, cuStreamWaitEvent: "Makes all future work submitted to hStream wait for all
// work captured in hEvent. [...] The synchronization will be performed efficiently on the device
// when applicable."
TEST_F(EventRulesTest, StreamsTakeTurnsByEvents) {
  const Work one, other;
  const Mark of_one, of_other;
  const GpuNumber x;
  std::int64_t expected = 0;
  for (std::int64_t k = 0; k < 40; ++k) {
    one.launch("add", {x.address(), static_cast<std::uint64_t>(k)});
    of_one.record(one);
    other.wait(of_one.event());
    other.launch("scale", {x.address(), 2});
    of_other.record(other);
    one.wait(of_other.event());
    expected = (expected + k) * 2;
  }
  one.synchronize();
  EXPECT_EQ(x.value(), expected);
}

// Event Management, cuEventDestroy: "An event may be destroyed before it is complete [...]. In this
// case, the call does not block on completion of the event".
TEST_F(EventRulesTest, DestroyedEventsKeepTheirWaits) {
  const Work one, waiting;
  Gate gate;
  gate.hold(one);
  Mark mark(one);
  waiting.wait(mark.event());
  const Mark after(waiting);
  mark.destroy();
  EXPECT_TRUE(after.stays_outstanding());
  gate.open();
  after.synchronize();
}

// Event Management, cuEventRecord: "hEvent and hStream must be from the same context otherwise
// CUDA_ERROR_INVALID_HANDLE is returned."
TEST_F(EventRulesTest, EventsAreRecordedInTheirContext) {
  NEEDS_TWO_GPUS();
  const Mark mark;
  const OnGpu elsewhere(cuda.gpus[1]);
  const Work work(stream_non_blocking, cuda.gpus[1]);
  EXPECT_EQ(driver.event_record(mark.event(), work.stream()), invalid_handle);
}

// Stream Management, cuStreamWaitEvent: "hEvent may be from a different context or device than
// hStream."
TEST_F(EventRulesTest, StreamsWaitForEventsOfOtherDevices) {
  NEEDS_TWO_GPUS();
  const Work work;
  Gate gate;
  gate.hold(work);
  const Mark mark(work);
  const OnGpu elsewhere(cuda.gpus[1]);
  const Work there(stream_non_blocking, cuda.gpus[1]);
  there.wait(mark.event());
  const Mark after(there);
  EXPECT_TRUE(after.stays_outstanding());
  gate.open();
  after.synchronize();
}

}  // namespace
}  // namespace heddle::driver_rules
