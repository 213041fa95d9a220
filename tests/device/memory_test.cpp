// Memory of devices: counted by tensor, reused, freed in timeline order, bounded.
#include "tests/device/backends.hpp"

namespace heddle {
namespace {

using testing::AllOf;
using testing::Each;
using testing::HasSubstr;

class MemoryTest : public Conformance {
 protected:
  static TensorMemory of(const Device& device, const std::string& label) {
    for (TensorMemory& memory : device.memory()) {
      if (memory.label.find(label) != std::string::npos) return std::move(memory);
    }
    return {};
  }
  static std::span<const std::byte> bytes(const std::vector<float>& values) {
    return std::as_bytes(std::span(values));
  }
};
HEDDLE_CONFORMANCE_SUITE(MemoryTest);

// D2: bytes in use and the most there were, by tensor; a tensor that is gone keeps its peak
TEST_P(MemoryTest, EachTensorIsAccountedFor) {
  const Tensor small("small", f32, {10}), large("large", f64, {100});
  Index i;
  Program p("p");
  p << (small(i) += 1.0) << (large(i) += 1.0);
  const Code code = backend.compile(p);
  {
    const Routine first = Context(device).link(code);
    {
      const Routine second = Context(device).link(code);  // memory of its own
      EXPECT_EQ(of(device, "'small'").bytes_in_use, 80u);
      EXPECT_EQ(of(device, "'large'").bytes_in_use, 1600u);
      EXPECT_THAT(device.memory()[0].label, AllOf(HasSubstr("'large'"), HasSubstr("f64[100]")));
      device.await();
    }
    EXPECT_EQ(of(device, "'large'").bytes_in_use, 800u);
    EXPECT_EQ(of(device, "'large'").bytes_peak, 1600u);
    device.await();
  }
  EXPECT_EQ(of(device, "'large'").bytes_in_use, 0u);
  EXPECT_EQ(of(device, "'large'").bytes_peak, 1600u);
  const Buffer buffer = Buffer::allocate(device, {i32, {1000}});
  EXPECT_EQ(of(device, "i32[1000]").bytes_in_use, 4000u);
  std::uint64_t all = 0;
  for (const TensorMemory& memory : device.memory()) all += memory.bytes_in_use;
  EXPECT_EQ(all, device.statistics().bytes_in_use);
}

// D2: memory that is free again is kept, and taken again before new memory is
TEST_P(MemoryTest, FreedMemoryIsTakenAgain) {
  const ArrayType type{f32, {1000}};
  {
    const Buffer buffer = Buffer::allocate(device, type);
  }
  device.await();
  const std::uint64_t kept = device.statistics().bytes_cached;
  EXPECT_GE(kept, 4000u);
  {
    const Buffer again = Buffer::allocate(device, type);
    EXPECT_EQ(device.statistics().bytes_cached, 0u);
    const Buffer another = Buffer::allocate(device, type);
  }
  device.await();
  EXPECT_EQ(device.statistics().bytes_cached, 2 * kept);
}

// D2: what tasks still use is nobody else's, though all handles are gone
TEST_P(MemoryTest, IsFreedInTimelineOrder) {
  const std::vector<float> sevens(1000, 7);
  std::vector<float> read(1000);
  sched::ExternalTimeline gate("gate");
  const Event opened = gate.next();
  device.wait(opened);
  {
    const BufferView view(Buffer::allocate(device, {f32, {1000}}), {f32, {1000}});
    view.from_host(device, bytes(sevens));
    view.to_host(device, std::as_writable_bytes(std::span(read)));
  }
  EXPECT_EQ(device.statistics().bytes_in_use, 4000u);
  EXPECT_EQ(device.statistics().bytes_cached, 0u);
  // Another device of this memory, which does not wait, gets none of it.
  const Device other = backend.physical_device(0).new_virtual_device();
  const BufferView theirs(Buffer::allocate(other, {f32, {1000}}), {f32, {1000}});
  EXPECT_TRUE(theirs.from_host(other, bytes(std::vector<float>(1000, 1))).wait().ok());
  EXPECT_TRUE(gate.signal(opened.ticket()).ok());
  device.await();
  EXPECT_THAT(read, Each(7));
  std::vector<float> still(1000);
  EXPECT_TRUE(theirs.to_host(other, std::as_writable_bytes(std::span(still))).wait().ok());
  EXPECT_THAT(still, Each(1));
  EXPECT_EQ(device.statistics().bytes_in_use, 0u);
  EXPECT_GE(device.statistics().bytes_cached, 4000u);
}

// D3: a bound per device, told with what was asked for and what has how much; all stays usable
TEST_P(MemoryTest, BytesMaxBoundsEachDevice) {
  BackendOptions options;
  options.name = GetParam();
  options.bytes_max = 100'000;
  const Backend bounded = Backend::open(options);
  const Hardware physical = bounded.physical_device(0);
  const Device first = physical.new_virtual_device(), second = physical.new_virtual_device();
  const Tensor weights("weights", f32, {16'000}), more("more", f32, {10'000});
  Index i;
  Program p("p"), q("q");
  p << (weights(i) += 1.0);
  q << (more(i) += 1.0);
  const Code code = bounded.compile(p), next = bounded.compile(q);
  {
    const Routine run = Context(first).link(code);
    const Status refused = failure([&] { static_cast<void>(run.context().link(next)); });
    EXPECT_EQ(refused.code(), ErrorCode::exhausted);
    EXPECT_THAT(text(refused),
                AllOf(HasSubstr("'more'"), HasSubstr("40000 bytes"), HasSubstr("100000 bytes"),
                      HasSubstr("bytes_max"), HasSubstr("'weights' f32[16000] on " + first.name()),
                      HasSubstr("(64000)")));
    EXPECT_TRUE(run.schedule().wait().ok());
    EXPECT_NO_THROW(static_cast<void>(Context(second).link(next)));  // has a bound of its own
    first.await();
  }
  // What was kept of 64,000 bytes is in the way, and goes.
  const Routine then = Context(first).link(next);
  EXPECT_TRUE(then.schedule().wait().ok());
  EXPECT_EQ(then.context().read<float>(more)[9'999], 1);
}

/// Fresh memory that held something else, on a device whose tasks wait until told to go on.
class FirstValuesTest : public MemoryTest {
 protected:
  FirstValuesTest() {
    {
      const BufferView dirty(Buffer::allocate(device, type), type);
      EXPECT_TRUE(dirty.from_host(device, bytes(std::vector<float>(1000, 7))).wait().ok());
    }
    device.await();
    EXPECT_GT(device.statistics().bytes_cached, 0u);
    device.wait(opened);
  }
  std::vector<float> values_of(const BufferView& view, const Device& reader) {
    std::vector<float> values(1000, -1);
    const Event event = view.to_host(reader, std::as_writable_bytes(std::span(values)));
    EXPECT_TRUE(event.wait().ok()) << event.status().to_string();
    return values;
  }
  void open() { EXPECT_TRUE(gate.signal(opened.ticket()).ok()); }

  const ArrayType type{f32, {1000}};
  sched::ExternalTimeline gate{"gate"};
  const Event opened = gate.next();
};
HEDDLE_CONFORMANCE_SUITE(FirstValuesTest);

// D2, S11: a failure before them skips the tasks that put them there, which do so all the same
TEST_P(FirstValuesTest, AreThereAfterAFailureAndAfterRecovery) {
  const Event failed = device.submit("fails", [] { throw std::runtime_error("before"); });
  const BufferView view(Buffer::allocate(device, type), type);
  Tensor sum("sum", f32, {1000});
  sum.set_mode(MemoryMode::on_device);
  const Tensor ones("ones", HostArray::of({1000}, std::vector<float>(1000, 1)),
                    MemoryMode::hosted_nonconstant);
  Index i;
  Program p("p");
  p << (sum(i) += ones(i));
  const Routine routine = Context(device).link(backend.compile(p));
  open();
  EXPECT_FALSE(failed.wait().ok());
  device.recover();
  EXPECT_THAT(values_of(view, device), Each(0));
  EXPECT_TRUE(routine.schedule().wait().ok());
  EXPECT_THAT(routine.context().read<float>(sum), Each(1));
}

// D2, S12
TEST_P(FirstValuesTest, AreThereAfterTheyWereCancelled) {
  const BufferView view(Buffer::allocate(device, type), type);
  device.cancel_pending();
  device.await();
  EXPECT_THAT(values_of(view, backend.physical_device(0).new_virtual_device()), Each(0));
  EXPECT_THAT(values_of(view, device), Each(0));
}

// D2: another device waits for them, so that they overwrite nothing that it wrote
TEST_P(FirstValuesTest, OtherDevicesComeAfterThem) {
  const Device other = backend.physical_device(0).new_virtual_device();
  const BufferView view(Buffer::allocate(device, type), type);
  const std::vector<float> twos(1000, 2);
  const Event written = view.from_host(other, bytes(twos));
  EXPECT_FALSE(written.done());
  open();
  EXPECT_TRUE(written.wait().ok());
  device.await();
  EXPECT_THAT(values_of(view, device), Each(2));
}

}  // namespace
}  // namespace heddle
