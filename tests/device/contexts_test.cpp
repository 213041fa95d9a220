// What a backend, a context and a routine are before, between and after their use.
#include "tests/device/backends.hpp"

namespace heddle {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class ContextsTest : public Conformance {};
HEDDLE_CONFORMANCE_SUITE(ContextsTest);

// O20: an empty context holds nothing and expects nothing
TEST_P(ContextsTest, EmptyContextHoldsNothing) {
  const Context empty(device);
  const Tensor t("t", f32, {2});
  EXPECT_THAT(empty.tensors(), IsEmpty());
  EXPECT_EQ(empty.num_bytes(), 0u);
  EXPECT_FALSE(empty.contains(t));
  EXPECT_FALSE(empty.parent().has_value());
  EXPECT_FALSE(empty.expected_merge_tensor().has_value());
  EXPECT_THAT(empty.label(), HasSubstr(device.name()));
  EXPECT_TRUE(empty.device() == device);
  const Status lacking = failure([&] { static_cast<void>(empty.read<float>(t)); });
  EXPECT_EQ(lacking.code(), ErrorCode::not_found);
  EXPECT_THAT(text(lacking), AllOf(HasSubstr("'t'"), HasSubstr(device.name())));
}

// O18, O19, J8: a routine is its context after linking, its name, and a schedule that repeats
TEST_P(ContextsTest, RoutinesRunAsOftenAsAsked) {
  const Tensor x("x", i32, {2});
  Index i;
  Program count("count");
  count << (x(i) += 1);
  const Context before(device);
  const Routine run = before.link(backend.compile(count));
  EXPECT_EQ(run.name(), "count");
  EXPECT_TRUE(run.context().contains(x));
  EXPECT_FALSE(before.contains(x));
  std::uint64_t last = 0;
  for (int k = 0; k < 10; ++k) {
    const Event event = run.schedule();
    EXPECT_GT(event.ticket(), last);
    EXPECT_EQ(event.timeline(), device.timeline().id());
    last = event.ticket();
  }
  EXPECT_THAT(run.context().read<std::int32_t>(x), ElementsAre(10, 10));
}

// O3, O44, B2: open is ready for use; finalising one instance leaves another of the same name alone
TEST_P(ContextsTest, InstancesDoNotShareTheirEnd) {
  const Backend second = Backend::open(GetParam());
  const Device other = second.physical_device(0).new_virtual_device();
  EXPECT_EQ(other.name(), device.name());
  backend.finalize();
  const Tensor x("x", i32, {2});
  Index i;
  Program p("p");
  p << (x(i) += 3);
  const Routine run = Context(other).link(second.compile(p));
  run.schedule();
  EXPECT_THAT(run.context().read<std::int32_t>(x), ElementsAre(3, 3));
}

// O14, O45, S15: an inline row ends its work before it returns; a threaded one may not
TEST_P(ContextsTest, IdleMeansEndedAndInlineRowsAreAlwaysIdle) {
  const Tensor x("x", i32, {2});
  Index i;
  Program p("p");
  p << (x(i) += 1);
  const Routine run = Context(device).link(backend.compile(p));
  const Event event = run.schedule();
  if (GetParam().starts_with("sync_")) {
    EXPECT_TRUE(event.done());
    EXPECT_TRUE(device.is_idle());
  }
  device.await();
  EXPECT_TRUE(event.done());
  EXPECT_TRUE(device.is_idle());
  sched::ExternalTimeline gate("gate");
  const Event opened = gate.next();
  device.wait(opened);
  EXPECT_FALSE(device.is_idle());
  EXPECT_TRUE(gate.signal(opened.ticket()).ok());
  device.await();
  EXPECT_TRUE(device.is_idle());
}

// O38: what a transfer is told to come after has ended when it moves
TEST_P(ContextsTest, TransfersAndRoutinesWaitForTheEventsTheyAreGiven) {
  const Device other = backend.physical_device(0).new_virtual_device();
  const Tensor t("t", f32, {2});
  Index i;
  Program fill("fill"), add("add");
  fill << (t(i) = Expr(5.0));
  add << (t(i) += merge(t)(i));
  const Routine source = Context(device).link(backend.compile(fill));
  const Routine consumer = Context(other).link(backend.compile(add));
  sched::ExternalTimeline gate("gate");
  const Event opened = gate.next();
  device.wait(opened);  // the source is late
  TransferOptions after;
  after.after = {source.schedule()};
  const Transfer loaded = load_merge(consumer, source.context(), MergeMode::stream, after);
  const Event added = consumer.schedule();
  ScheduleOptions later;
  later.after = {added};
  const Event refilled = source.schedule({}, later);  // the streamed buffer is free again
  EXPECT_FALSE(loaded.event.done());
  EXPECT_FALSE(added.done());
  EXPECT_FALSE(refilled.done());
  EXPECT_TRUE(gate.signal(opened.ticket()).ok());
  EXPECT_TRUE(refilled.wait().ok());
  EXPECT_THAT(consumer.context().read<float>(t), ElementsAre(5, 5));
}

// O50, O51: errors carry the names in use and say whose fault it was
TEST_P(ContextsTest, ErrorsNameTheBackendInUse) {
  EXPECT_THAT(backend.to_string(), HasSubstr(GetParam()));
  EXPECT_EQ(device.backend(), GetParam());
  const Status range = failure([&] { static_cast<void>(backend.physical_device(-1)); });
  EXPECT_EQ(range.code(), ErrorCode::invalid_argument);
  EXPECT_THAT(text(range), HasSubstr("'" + GetParam() + "'"));
  device.submit("broken", [] { throw std::runtime_error("cable"); });
  const Status failed = failure([&] { device.await(); });
  EXPECT_EQ(failed.code(), ErrorCode::device_failed);
  EXPECT_THAT(text(failed), AllOf(HasSubstr(device.name()), HasSubstr("'broken'")));
  backend.finalize();
  const Status closed =
      failure([&] { static_cast<void>(backend.physical_device(0).new_virtual_device()); });
  EXPECT_EQ(closed.code(), ErrorCode::failed_precondition);
  EXPECT_THAT(text(closed), HasSubstr("'" + GetParam() + "'"));
}

}  // namespace
}  // namespace heddle
