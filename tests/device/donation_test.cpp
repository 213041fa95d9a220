// Donation: memory has one owner at any time, and accepted work runs as if the memory had not been
// donated.
#include <atomic>
#include <chrono>
#include <thread>

#include "tests/device/backends.hpp"

namespace heddle {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

class DonationTest : public Conformance {
 protected:
  Device another() const { return backend.physical_device(0).new_virtual_device(); }

  /// A routine that fills `t` with a value, in a context where `t` is that view.
  Routine filler(const Device& on, const Tensor& t, const BufferView& view, double value,
                 bool traced = false) const {
    Index i;
    Program p("fill");
    p << (t(i) = Expr(value));
    CompileOptions options;
    options.trace_values = traced;
    return Context(on).with(t, view).link(backend.compile(p, options));
  }
  static BufferView whole(const Buffer& buffer, const ArrayType& type) {
    return BufferView(buffer, type);
  }
  /// Reads on the device's timeline, without blocking the host.
  static Event read(const Device& on, const BufferView& view, std::vector<float>& to) {
    return view.to_host(on, std::as_writable_bytes(std::span(to)));
  }
};
HEDDLE_CONFORMANCE_SUITE(DonationTest);

// D12, D17: queued zeroing reaches the memory under any later owner
TEST_P(DonationTest, QueuedZeroingRuns) {
  const ArrayType type{f32, {1000}};
  {  // a block with nonzero contents
    const Buffer used = Buffer::allocate(device, type);
    const std::vector<float> sevens(1000, 7);
    EXPECT_TRUE(whole(used, type).from_host(device, std::as_bytes(std::span(sevens))).wait().ok());
  }
  sched::ExternalTimeline gate("gate");
  const Event opened = gate.next();
  device.wait(opened);
  const Buffer taken = Buffer::allocate(device, type).donate();
  const Device other = another();
  std::vector<float> values(1000, 1);
  const Event done = read(other, whole(taken, type), values);
  EXPECT_TRUE(gate.signal(opened.ticket()).ok());
  EXPECT_TRUE(done.wait().ok());
  EXPECT_TRUE(device.record().wait().ok());
  EXPECT_THAT(values, Each(0));
}

// D17: the first use by a new owner runs after the accepted uses, on the device side, for any
// timelines and any number of owners between
TEST_P(DonationTest, ANewOwnerComesAfterAcceptedUses) {
  const ArrayType type{f32, {3}};
  const Tensor t("t", type.dtype, type.dims);
  const Device other = another(), third = another();
  const Buffer buffer = Buffer::allocate(device, type);
  const Routine fives = filler(device, t, whole(buffer, type), 5);
  device.await();
  sched::ExternalTimeline gate("gate");
  const Event opened = gate.next();
  device.wait(opened);
  fives.schedule();
  const Buffer next = buffer.donate().donate();
  std::vector<float> seen(3);
  const Event first = read(other, whole(next, type), seen);
  const Event nines = filler(third, t, whole(next.donate(), type), 9).schedule();
  EXPECT_FALSE(first.done());
  EXPECT_FALSE(nines.done());
  EXPECT_TRUE(gate.signal(opened.ticket()).ok());
  EXPECT_TRUE(nines.wait().ok());
  EXPECT_TRUE(first.done());
  EXPECT_THAT(seen, Each(5));
}

// D2, D17: memory of a running task is not reused, even if the new owner has released the memory
TEST_P(DonationTest, MemoryOfARunningTaskIsNotReused) {
  const ArrayType type{f32, {1000}};
  const Tensor t("t", type.dtype, type.dims);
  const Device other = another();
  auto buffer = std::make_unique<Buffer>(Buffer::allocate(device, type));
  device.await();
  auto fives = std::make_unique<Routine>(filler(other, t, whole(*buffer, type), 5, true));
  std::atomic<bool> inside = false, go_on = false;
  ScheduleOptions slowly;
  slowly.trace = [&](const TracedValue&) {
    inside = true;
    inside.notify_all();
    go_on.wait(false);
  };
  Event filled;
  // an inline device runs the task here
  std::thread submitter([&] { filled = fives->schedule({}, slowly); });
  inside.wait(false);
  static_cast<void>(buffer->donate());
  buffer.reset();
  const Buffer fresh = Buffer::allocate(device, type);
  static_cast<void>(device.record().wait_for(1s));  // zeroed, if a thread is free
  go_on = true;
  go_on.notify_all();
  submitter.join();
  EXPECT_TRUE(filled.wait().ok());
  std::vector<float> values(1000, 1);
  EXPECT_TRUE(read(device, whole(fresh, type), values).wait().ok());
  EXPECT_THAT(values, Each(0));
}

// D2, D17: nor is the memory of a queued launch, even if donor and new owner have released the
// memory
TEST_P(DonationTest, MemoryOfAQueuedLaunchIsNotReused) {
  const ArrayType type{f32, {1000}};
  const Tensor t("t", type.dtype, type.dims);
  const Device other = another();
  sched::ExternalTimeline gate("gate");
  const Event opened = gate.next();
  Event filled;
  std::uint64_t taken = 0;
  {
    Buffer buffer = Buffer::allocate(device, type);
    device.await();
    taken = device.statistics().bytes_in_use;
    const Routine fives = filler(other, t, whole(buffer, type), 5);
    other.wait(opened);
    filled = fives.schedule();
    buffer = buffer.donate().donate();
  }
  EXPECT_EQ(device.statistics().bytes_in_use, 0u);
  device.trim();
  EXPECT_GE(device.statistics().bytes_cached, taken);
  const Buffer fresh = Buffer::allocate(device, type);
  device.await();
  EXPECT_TRUE(gate.signal(opened.ticket()).ok());
  EXPECT_TRUE(filled.wait().ok());
  std::vector<float> values(1000, 1);
  EXPECT_TRUE(read(device, whole(fresh, type), values).wait().ok());
  EXPECT_THAT(values, Each(0));
  other.await();
  for (int k = 0; k < 5000 && device.statistics().bytes_cached > 0; ++k)
    std::this_thread::sleep_for(1ms);
  EXPECT_EQ(device.statistics().bytes_cached, 0u);
  EXPECT_EQ(device.statistics().bytes_in_use, taken);  // by `fresh`
}

// D12, D17: every later use is refused at the call; the error names the taker and the place; no
// data is damaged
TEST_P(DonationTest, LaterUsesAreRefusedByName) {
  const Tensor x("x", HostArray({f32, {4}}));
  const Device other = another();
  const Buffer buffer = Buffer::allocate(device, x.type());
  const BufferView view = whole(buffer, x.type());
  const BufferView spare = whole(Buffer::allocate(device, x.type()), x.type());
  const Routine run = filler(device, x, view, 1);
  const Routine there = filler(other, x, whole(Buffer::allocate(other, x.type()), x.type()), 2);
  Index i;
  Program add("add");
  add << (x(i) += merge(x)(i));
  const Routine consumer = there.context().link(backend.compile(add));
  EXPECT_TRUE(run.schedule().wait().ok());
  static_cast<void>(load_merge(consumer, run.context(), MergeMode::stream));
  const auto line = std::to_string(__LINE__ + 1);
  const Buffer taken = buffer.donate();
  const std::string place = "donation_test.cpp:" + line;
  const auto refused = [&](const std::string& culprit, const auto& use) {
    const Status status = failure(use);
    EXPECT_EQ(status.code(), ErrorCode::failed_precondition);
    EXPECT_THAT(text(status), AllOf(HasSubstr(culprit), HasSubstr("donate"), HasSubstr(place),
                                    HasSubstr("LaterUsesAreRefusedByName")));
  };
  const Context& here = run.context();
  refused("'x'", [&] { run.schedule(); });
  refused("'x'", [&] { static_cast<void>(here.link(run.code())); });
  refused("'x'", [&] { static_cast<void>(here.read<float>(x)); });
  refused("'x'", [&] { here.write(x, std::vector<float>(4)); });
  refused("'x'", [&] { static_cast<void>(here.from_host(x)); });
  refused("'x'", [&] { static_cast<void>(here.to_host(x)); });
  refused("'x'", [&] { static_cast<void>(copy(x, here, there.context())); });
  refused("'x'", [&] { static_cast<void>(copy(x, there.context(), here)); });
  refused("'x'", [&] { static_cast<void>(load_merge(consumer, here, MergeMode::copy)); });
  refused("'x'", [&] { merge(consumer, here, MergeMode::copy); });
  refused("'x'", [&] { merge(consumer, here, MergeMode::stream); });
  refused("'x'", [&] { consumer.schedule(); });  // borrowed the donated memory
  refused("'x'", [&] { static_cast<void>(Context(device).with(x, view)); });
  std::vector<float> values(4);
  refused("f32[4]", [&] { read(device, view, values); });
  refused("f32[4]", [&] { view.from_host(device, std::as_bytes(std::span(values))); });
  refused("f32[4]", [&] { view.copy_from(device, spare); });
  refused("f32[4]", [&] { spare.copy_from(device, view); });
  refused("16 bytes", [&] { static_cast<void>(buffer.donate()); });
  EXPECT_TRUE(read(device, whole(taken, x.type()), values).wait().ok());
  EXPECT_THAT(values, Each(1));
  EXPECT_TRUE(there.schedule().wait().ok());
  device.await();
  other.await();
}

// D17, S10: a new owner's read of values that an accepted use failed to write reports the failure
TEST_P(DonationTest, TheFailureOfAnAcceptedUseReachesTheNewOwner) {
  const ArrayType type{f32, {2}};
  const Tensor t("t", type.dtype, type.dims);
  const Device other = another();
  const Buffer buffer = Buffer::allocate(device, type);
  ScheduleOptions failing;
  failing.contain = true;
  failing.trace = [](const TracedValue&) { throw std::runtime_error("broken sensor"); };
  const Event broken = filler(device, t, whole(buffer, type), 5, true).schedule({}, failing);
  const Buffer taken = buffer.donate();
  std::vector<float> values(2);
  // The failure may or may not be known yet.
  EXPECT_THAT(
      text(failure([&] { throw_if_failed(read(other, whole(taken, type), values).wait()); })),
      HasSubstr("broken sensor"));
  EXPECT_FALSE(broken.wait().ok());
  EXPECT_TRUE(other.submit("goes on", [] {}).wait().ok());  // the failure was contained
}

// D17: a new owner's use that ended without waiting for the donor's uses, because it was cancelled,
// skipped or came after a failure, does not let the next use overtake the donor's
TEST_P(DonationTest, NoUseOfANewOwnerOvertakesAcceptedUses) {
  const ArrayType type{f32, {3}};
  const Tensor t("t", type.dtype, type.dims), copied("copied", type.dtype, type.dims);
  Index i;
  Program p("p");
  p << (copied(i) = t(i));
  const Code code = backend.compile(p);
  enum class Way { cancelled, skipped, refused };
  for (const Way way : {Way::cancelled, Way::skipped, Way::refused}) {
    const Device other = another();
    const Buffer buffer = Buffer::allocate(device, type);
    const Routine fives = filler(device, t, whole(buffer, type), 5);
    device.await();
    sched::ExternalTimeline gate("gate"), door("door");
    const Event opened = gate.next(), unlocked = door.next();
    device.wait(opened);
    fives.schedule();
    const Buffer next = buffer.donate();
    const Routine use = Context(other).with(t, whole(next, type)).link(code);
    other.await();
    ScheduleOptions options;
    if (way == Way::refused) {
      options.contain = true;
      options.after = {unlocked};
    } else if (way == Way::skipped) {
      other.wait(unlocked);
    }
    const Event first = use.schedule({}, options);
    if (way == Way::cancelled) {
      other.cancel_pending();
    } else {
      EXPECT_TRUE(door.signal(unlocked.ticket(), Status(ErrorCode::internal, "broken")).ok());
    }
    EXPECT_FALSE(first.wait().ok());
    if (way == Way::skipped) other.recover();
    std::vector<float> seen(3);
    const Event second = read(other, whole(next, type), seen);
    EXPECT_EQ(second.wait_for(10ms).code(), ErrorCode::deadline);
    EXPECT_TRUE(gate.signal(opened.ticket()).ok());
    EXPECT_TRUE(second.wait().ok()) << text(second.status());
    EXPECT_THAT(seen, Each(5));
  }
}

// D17, S10: a task that overwrites the whole memory does not read values of a failed use, hence it
// runs, and the memory is valid afterwards; before the overwrite each owner gets the error once on
// each device
TEST_P(DonationTest, AFailureEndsWhereTheMemoryIsOverwritten) {
  const ArrayType type{f32, {2}};
  const Tensor t("t", type.dtype, type.dims);
  const Device other = another();
  ScheduleOptions failing;
  failing.contain = true;
  failing.trace = [](const TracedValue&) { throw std::runtime_error("broken sensor"); };
  for (const bool pending : {false, true}) {
    Buffer buffer = Buffer::allocate(device, type);
    device.await();
    sched::ExternalTimeline gate("gate");
    const Event opened = gate.next();
    if (pending) device.wait(opened);
    const Event broken = filler(device, t, whole(buffer, type), 1, true).schedule({}, failing);
    if (!pending) {
      EXPECT_FALSE(broken.wait().ok());
    }
    Event last;
    for (int k = 0; k < 3; ++k) {
      buffer = buffer.donate();
      last = filler(k % 2 == 0 ? other : device, t, whole(buffer, type), k).schedule();
      if (!pending) {
        EXPECT_TRUE(last.wait().ok()) << text(last.status());
      }
    }
    EXPECT_EQ(last.done(), !pending);  // the overwrite still waits for the earlier uses
    EXPECT_TRUE(gate.signal(opened.ticket()).ok());
    EXPECT_TRUE(last.wait().ok()) << text(last.status());
    EXPECT_FALSE(broken.wait().ok());
    std::vector<float> values(2);
    EXPECT_TRUE(read(another(), whole(buffer.donate(), type), values).wait().ok());
    EXPECT_THAT(values, Each(2));
  }
  const Buffer buffer = Buffer::allocate(device, type);
  EXPECT_FALSE(filler(device, t, whole(buffer, type), 1, true).schedule({}, failing).wait().ok());
  std::vector<float> values(2);
  // Any owner gets the error until the overwrite.
  const Buffer taken = buffer.donate().donate();
  for (const Device& reader : {device, other, other}) {
    EXPECT_THAT(text(failure([&] { read(reader, whole(taken, type), values); })),
                AllOf(HasSubstr("not written"), HasSubstr("broken sensor")));
  }
  EXPECT_TRUE(filler(other, t, whole(taken, type), 3).schedule().wait().ok());
  EXPECT_TRUE(read(another(), whole(taken.donate(), type), values).wait().ok());
  // After an overwrite on one device, no device reports the failure.
  const Buffer broken = Buffer::allocate(device, type);
  EXPECT_FALSE(filler(device, t, whole(broken, type), 1, true).schedule({}, failing).wait().ok());
  const Buffer mine = broken.donate();
  EXPECT_TRUE(filler(other, t, whole(mine, type), 2).schedule().wait().ok());
  EXPECT_TRUE(read(another(), whole(mine, type), values).wait().ok());
}

// D17, S4: a thread that waits for room in a queue holds no lock that the running task needs for a
// donation
TEST_P(DonationTest, ATaskDonatesWhileASubmitWaitsForItsQueue) {
  BackendOptions options;
  options.name = GetParam();
  options.scheduling.device.queue_size = 2;
  const Backend small = Backend::open(options);
  const Device busy = small.physical_device(0).new_virtual_device();
  const ArrayType type{f32, {2}};
  const Buffer buffer = Buffer::allocate(busy, type);
  const BufferView view = whole(buffer, type);
  busy.await();
  std::atomic<bool> inside = false, go_on = false;
  std::thread donor([&] {
    const Event donated = busy.submit("donate", [&] {
      inside = true;
      inside.notify_all();
      go_on.wait(false);
      static_cast<void>(buffer.donate());
    });
    EXPECT_TRUE(donated.wait().ok());
  });
  inside.wait(false);
  sched::SubmitOptions at_once;
  at_once.full = sched::FullPolicy::fail;
  while (busy.submit("full", [] {}, at_once).accepted()) {
  }
  Status refused;
  std::thread user([&] {
    std::vector<float> values(2);
    refused = failure([&] { read(busy, view, values).wait(); });
  });
  std::this_thread::sleep_for(20ms);  // to let the submit block
  go_on = true;
  go_on.notify_all();
  donor.join();
  user.join();
  EXPECT_EQ(refused.code(), ErrorCode::failed_precondition);
  EXPECT_THAT(text(refused), HasSubstr("donate"));
  busy.await();
}

}  // namespace
}  // namespace heddle
