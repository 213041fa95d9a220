// Arrays: pending, available and failed values on devices.
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "heddle/array.hpp"
#include "heddle/executor.hpp"
#include "heddle/padding.hpp"
#include "heddle/replay.hpp"
#include "tests/device/backends.hpp"

namespace heddle {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

class ArraysTest : public Conformance {
 protected:
  /// A routine that writes `x`, and an array of the result.
  Array computed(float value) {
    Tensor x("x", f32, {3});
    Index i;
    Program p("fill");
    p << (x(i) = embed(i) + value);
    const Routine fill = Context(device).link(backend.compile(p));
    const Event event = fill.schedule();
    return Array(device, fill.context().view(x), event);
  }
  /// Blocks the device until destroyed.
  struct Gate {
    explicit Gate(const Device& of) : opened(timeline.next()) { of.wait(opened); }
    ~Gate() { open(); }
    void open() { static_cast<void>(timeline.signal(opened.ticket())); }
    sched::ExternalTimeline timeline{"gate"};
    Event opened;
  };
};
HEDDLE_CONFORMANCE_SUITE(ArraysTest);

// S11: values written before the device failed are readable, even before recovery; failed values
// are not
TEST_P(ArraysTest, AreReadWhileTheirDeviceHasFailed) {
  const Array there = computed(1);
  static_cast<void>(there.wait());
  std::optional<Gate> gate(std::in_place, device);
  const Event failed = device.submit("sensor", [] { throw std::runtime_error("unplugged"); });
  const Array missing = there.copy();
  gate.reset();
  EXPECT_FALSE(failed.wait().ok());
  EXPECT_THAT(there.values<float>(), ElementsAre(1, 2, 3));
  EXPECT_THAT(text(failure([&] { static_cast<void>(missing.to_host()); })), HasSubstr("unplugged"));
  EXPECT_EQ(device.timeline().status().code(), ErrorCode::device_failed);
  device.recover();
  EXPECT_THAT(there.values<float>(), ElementsAre(1, 2, 3));
}

// Arrays copy their input of any kind, and return the same values
TEST_P(ArraysTest, HaveACopyOfWhatTheyAreGiven) {
  std::vector<float> values{1, 2, 3, 4, 5, 6};
  const Array matrix(device, {2, 3}, values);
  const Array row(device, values);
  const Array one(device, 2.5);
  const Array flags(device, std::vector<bool>{true, false, true});
  const HostArray host = HostArray::range({i16, {4}});
  const Array counted(device, host);
  const Array none(device, {0, 3}, std::vector<std::int64_t>{});
  const Array part(device, std::span(values).subspan(1, 2));
  const Array turned(device, {3, 2}, std::span<const float>(values));
  values.assign(6, 0);
  host.set(0, 9);
  EXPECT_EQ(matrix.type(), (ArrayType{f32, {2, 3}}));
  EXPECT_EQ(row.dims(), (Dims{6}));
  EXPECT_EQ(one.type(), (ArrayType{f64, {}}));
  EXPECT_THAT(matrix.values<float>(), ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_THAT(row.values<float>(), ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_THAT(part.values<float>(), ElementsAre(2, 3));
  EXPECT_EQ(turned.dims(), (Dims{3, 2}));
  EXPECT_EQ(one.item<double>(), 2.5);
  EXPECT_THAT(flags.values<bool>(), ElementsAre(true, false, true));
  EXPECT_THAT(counted.values<std::int16_t>(), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(none.values<std::int64_t>(), IsEmpty());
  EXPECT_THAT(Array::zeros(device, {u8, {3}}).values<std::uint8_t>(), ElementsAre(0, 0, 0));
  EXPECT_TRUE(matrix.done());
  EXPECT_EQ(matrix.device(), device);
}

// Arrays are read to memory of the caller, of their type and size alone
TEST_P(ArraysTest, AreReadToMemoryOfTheCaller) {
  const Array x(device, {2, 2}, {1.F, 2.F, 3.F, 4.F});
  std::vector<float> into(6, 9);
  x.read(std::span(into).subspan(1, 4));
  EXPECT_THAT(into, ElementsAre(9, 1, 2, 3, 4, 9));
  EXPECT_THAT(text(failure([&] { x.read(std::span(into)); })), HasSubstr("is read to 6 elements"));
  std::vector<double> wide(4);
  EXPECT_THAT(text(failure([&] { x.read(std::span(wide)); })), HasSubstr("is read as f64"));
  Array(device, std::vector<float>()).read(std::span<float>());
}

// Pending arrays can be passed on, and are read once computed
TEST_P(ArraysTest, AreThereBeforeTheirValues) {
  Gate gate(device);
  const Array x = computed(0.5F);
  const Array same = x;
  EXPECT_EQ(same, x);
  EXPECT_TRUE(x.status().ok());
  std::thread host([&] { EXPECT_THAT(same.values<float>(), ElementsAre(0.5F, 1.5F, 2.5F)); });
  gate.open();
  host.join();
  EXPECT_TRUE(x.wait().ok());
  EXPECT_TRUE(x.done());
}

// D9: a copy waits for the writer of the source, without blocking the host
TEST_P(ArraysTest, GoToOtherDevices) {
  const Device other = backend.physical_device(0).new_virtual_device();
  Gate gate(device);
  const Array x = computed(1);
  EXPECT_EQ(x.copy_to(device), x);
  const Array there = x.copy_to(other);
  EXPECT_EQ(there.device(), other);
  EXPECT_FALSE(there.done());
  gate.open();
  EXPECT_THAT(there.values<float>(), ElementsAre(1, 2, 3));
  const Device elsewhere = Backend::open("sync_cc").physical_device(0).new_virtual_device();
  EXPECT_THAT(there.copy_to(elsewhere).values<float>(), ElementsAre(1, 2, 3));
}

// S10, D9: a read of a failed value reports the cause, also after the device has recovered
TEST_P(ArraysTest, TellWhatBecameOfThem) {
  const Device other = backend.physical_device(0).new_virtual_device();
  Tensor x("x", f32, {3});
  const BufferView view(Buffer::allocate(device, x.type()), x.type());
  const Event broken = device.submit("sensor", Touches{.writes = {view}},
                                     [] { throw std::runtime_error("unplugged"); });
  const Array array(device, view, broken);
  const auto why = HasSubstr("unplugged");
  EXPECT_THAT(text(array.wait()), why);
  EXPECT_THAT(text(array.status()), why);
  EXPECT_THAT(text(failure([&] { static_cast<void>(array.to_host()); })), why);
  EXPECT_THAT(array.to_string(), AllOf(HasSubstr("f32[3] on "), why));
  device.recover();
  EXPECT_THAT(text(failure([&] { static_cast<void>(array.to_host()); })), why);
  EXPECT_THAT(text(failure([&] { static_cast<void>(array.copy_to(other).to_host()); })), why);
  EXPECT_THAT(Array(device, 1.0F).values<float>(), ElementsAre(1));
}

// D9, S10: an array filled in an order unknown to heddle is read once its event succeeds, and
// refused when the event fails
TEST_P(ArraysTest, AreReadOnceTheirEventTellsSo) {
  const Device other = backend.physical_device(0).new_virtual_device();
  const Tensor x("x", f32, {2});
  Program p("fill");
  Index i;
  p << (x(i) = embed(i) + 1.0F);
  const Executor twice(device, [](Node each) { return each + each; });
  twice(Array(device, std::vector<float>{0, 0})).wait();  // compiles before the gate
  sched::ExternalTimeline sensor("sensor");
  const Array memory = Array::zeros(device, {f32, {2}});
  EXPECT_THAT(memory.values<float>(), ElementsAre(0, 0));
  const Device third = backend.physical_device(0).new_virtual_device();
  const Routine fill = Context(third).with(x, memory.view()).link(backend.compile(p));
  const Array filled(device, memory.view(), sensor.next());
  const Array doubled = twice(filled);
  const Array there = filled.copy_to(other);
  const Array longer = padded(filled, 0, {3});
  Recording recording;
  EXPECT_THAT(text(failure([&] { twice.record(recording, filled); })),
              AllOf(HasSubstr("argument 0 of 1"), HasSubstr("wait() for it first")));
  std::vector<float> read;
  std::thread reader([&] { read = filled.values<float>(); });
  EXPECT_FALSE(doubled.done());
  EXPECT_FALSE(there.done());
  EXPECT_FALSE(longer.done());
  ASSERT_TRUE(fill.schedule({}, {.sync = Sync::manual}).wait().ok());
  ASSERT_TRUE(sensor.signal(1).ok());
  reader.join();
  EXPECT_THAT(read, ElementsAre(1, 2));
  EXPECT_THAT(doubled.values<float>(), ElementsAre(2, 4));
  EXPECT_THAT(there.values<float>(), ElementsAre(1, 2));
  EXPECT_THAT(longer.values<float>(), ElementsAre(1, 2, 0));
  EXPECT_NO_THROW(static_cast<void>(twice.record(recording, filled)));
}

TEST_P(ArraysTest, FailWithTheirEvent) {
  const Device other = backend.physical_device(0).new_virtual_device();
  const Executor twice(device, [](Node x) { return x + x; });
  sched::ExternalTimeline sensor("sensor");
  const Array memory = Array::zeros(device, {f32, {2}});
  const Array filled(device, memory.view(), sensor.next());
  const Array doubled = twice(filled);
  const Array there = filled.copy_to(other);
  ASSERT_TRUE(sensor.signal(1, Status(ErrorCode::device_failed, "unplugged")).ok());
  const auto why = HasSubstr("unplugged");
  EXPECT_THAT(text(doubled.wait()), why);
  EXPECT_THAT(text(there.wait()), why);
  EXPECT_THAT(text(failure([&] { static_cast<void>(filled.values<float>()); })), why);
  EXPECT_THAT(text(failure([&] { twice(filled); })), why);
  // Neither the memory nor the device has failed.
  EXPECT_THAT(memory.values<float>(), ElementsAre(0, 0));
  EXPECT_THAT(twice(memory).values<float>(), ElementsAre(0, 0));
}

// D13: values in buffers of a finalised device survive, and the error of a read explains the access
TEST_P(ArraysTest, OutliveTheirDevice) {
  const Device other = backend.physical_device(0).new_virtual_device();
  const Device gone = backend.physical_device(0).new_virtual_device();
  const Array array(gone, std::vector<float>{1, 2});
  gone.finalize();
  EXPECT_THAT(text(failure([&] { static_cast<void>(array.to_host()); })),
              AllOf(HasSubstr("was finalised"), HasSubstr("copy_to() another one reads it")));
  EXPECT_THAT(array.copy_to(other).values<float>(), ElementsAre(1, 2));
}

// A copy is a separate array, without later changes to the source
TEST_P(ArraysTest, AreCopied) {
  const Array array(device, std::vector<float>{1, 2});
  const Array copy = array.copy();
  EXPECT_EQ(copy.device(), device);
  const std::vector<float> later{3, 4};
  array.view().from_host(device, std::as_bytes(std::span(later))).wait();
  EXPECT_THAT(copy.values<float>(), ElementsAre(1, 2));
  const Buffer taken = array.view().buffer().donate();
  for (const auto& copied : {std::function([&] { return array.copy(); }),
                             std::function([&] { return array.copy_to(device); })}) {
    EXPECT_THAT(text(failure([&] { static_cast<void>(copied()); })),
                HasSubstr("was donated: taken in"));
  }
}

// D2, D17: an array whose memory was donated is invalid
TEST_P(ArraysTest, GoWithTheirMemory) {
  const Array array(device, std::vector<float>{1, 2});
  EXPECT_TRUE(array.live());
  const Buffer taken = array.view().buffer().donate();
  EXPECT_FALSE(array.live());
  EXPECT_THAT(text(failure([&] { static_cast<void>(array.values<float>()); })),
              HasSubstr("was donated: taken in"));
  EXPECT_THAT(Array(device, BufferView(taken, array.type())).values<float>(), ElementsAre(1, 2));
}

// Type and shape errors name the argument and the expected type
TEST_P(ArraysTest, MistakesAreNamed) {
  const Array array(device, std::vector<float>{1, 2});
  EXPECT_THAT(text(failure([&] { static_cast<void>(array.values<double>()); })),
              AllOf(HasSubstr("array f32[2] on " + device.name()), HasSubstr("is read as f64"),
                    HasSubstr("arrays_test.cpp"), HasSubstr("(expected f32)")));
  EXPECT_THAT(text(failure([&] { static_cast<void>(array.item<float>()); })),
              HasSubstr("(expected an array of one element)"));
  const std::vector<float> three(3);
  EXPECT_THAT(text(failure([&] { Array(device, {2, 2}, std::span<const float>(three)); })),
              AllOf(HasSubstr("f32[2,2]"), HasSubstr("3 values were given (expected 4)")));
  EXPECT_THAT(text(failure([&] { Array(device, {2, 2}, three); })), Not(IsEmpty()));
  EXPECT_THAT(text(failure([&] { static_cast<void>(Array::zeros(device, {f32, {-1}})); })),
              HasSubstr("f32[-1]"));
  EXPECT_THAT(text(failure([&] { static_cast<void>(Array::zeros(device, {DType(77), {1}})); })),
              HasSubstr("77 is no dtype"));
  const Device gone = backend.physical_device(0).new_virtual_device();
  gone.finalize();
  EXPECT_THAT(text(failure([&] { Array(gone, 1.0F); })), HasSubstr("was finalised"));
}

// Printed text is bounded, and names the device
TEST_P(ArraysTest, PrintThemselves) {
  const Array array(device, HostArray::range({f32, {1000, 1000}}));
  EXPECT_THAT(array.to_string(), AllOf(HasSubstr("f32[1000,1000] on " + device.name()),
                                       HasSubstr("..."), HasSubstr("999999")));
  EXPECT_LT(array.to_string().size(), 1000U);
}

// A read in a task of the array's own device is refused, and does not write later to freed memory
TEST_P(ArraysTest, AreNotReadInTasksOfTheirDevice) {
  const Array sevens(device, std::vector<float>(1000, 7));
  std::vector<float> mine;
  ErrorCode code = ErrorCode::ok;
  const Event end = device.submit("reads", [&] {
    try {
      static_cast<void>(sevens.values<float>());
    } catch (const Error& error) {
      code = error.code();
    }
    mine.assign(1000, 0);  // reuses the memory of the read's destination
  });
  ASSERT_TRUE(end.wait().ok());
  device.await();
  EXPECT_EQ(code, ErrorCode::failed_precondition);
  EXPECT_EQ(mine, std::vector<float>(1000, 0));
}

}  // namespace
}  // namespace heddle
