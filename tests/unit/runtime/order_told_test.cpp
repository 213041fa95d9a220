// Sync::check: the host's own uses, who is told, and what it costs others.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "scheduler/device/clocks.hpp"
#include "tests/support/failure.hpp"
#include "tests/support/seeds.hpp"
#include "tests/unit/runtime/order_fixture.hpp"

namespace heddle {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

using OrderToldTest = OrderCheckTest;

// D9: host arrays: the host waits before it reads what a task writes, or writes what one reads
TEST_F(OrderToldTest, HostArrays) {
  const HostArray array({f32, {4}});
  const auto nothing = [] {};
  const auto writes = [&] { return one.submit("to", {.host_writes = {array}}, nothing); };
  const auto reads = [&] { return one.submit("from", {.host_reads = {array}}, nothing); };
  writes();
  static_cast<void>(array.at(0));
  EXPECT_THAT(found.take_labels(), ElementsAre("to < read of a HostArray"));
  settle();
  reads();
  static_cast<void>(array.values<float>());
  EXPECT_THAT(found.take_labels(), IsEmpty());
  array.set(1, 2);
  const std::vector<MissingOrder> all = found.take();
  ASSERT_THAT(all, SizeIs(1));
  EXPECT_THAT(all[0].to_string(),
              AllOf(HasSubstr("a host array"), HasSubstr("'write of a HostArray' by the host"),
                    HasSubstr("wait for the event of 'from' (" + one.name())));
  settle();
  EXPECT_TRUE(writes().wait().ok());
  static_cast<void>(array.values<float>());
  static_cast<void>(array.to_string());
  EXPECT_TRUE(reads().wait().ok());
  array.set_written();
  EXPECT_THAT(found.take_labels(), IsEmpty());
  writes();
  static_cast<void>(array.values<float>());
  reads();
  static_cast<void>(array.to_string());
  array.set_written();
  EXPECT_EQ(backend.missing_orders(), 6U);
  settle();
  one.submit("mine", {.host_writes = {array}}, [&] { array.set(0, 1); });
  wait_unseen(one);
  two.submit("not mine", [&] { static_cast<void>(array.at(0)); }).wait();
  EXPECT_THAT(told(), ElementsAre("mine < read of a HostArray"));
}

// D9: calls that take no events are told by their own lines, with the wait of their device that
// mends them
TEST_F(OrderToldTest, CallsWithoutEventsAreToldByLine) {
  const Tensor x("x", u8, {16});
  const Context there = Context(two).with(x, view());
  const BufferView other(Buffer::allocate(two, {u8, {16}}), {u8, {16}});
  std::vector<std::uint8_t> values(16);
  std::array<std::byte, 16> bytes{};
  std::uint32_t line = 0;
  const std::function<void()> calls[] = {
      [&] { values = there.read<std::uint8_t>(x), line = __LINE__; },
      [&] { values = there.read<std::uint8_t>(x), line = __LINE__; },
      [&] { there.write(x, values), line = __LINE__; },
      [&] { there.write(x, std::span<const std::uint8_t>(values)), line = __LINE__; },
      [&] { view().to_host(two, bytes), line = __LINE__; },
      [&] { view().from_host(two, bytes), line = __LINE__; },
      [&] { other.copy_from(two, view()), line = __LINE__; }};
  for (const auto& call : calls) {
    two.wait(write(one));
    call();
    EXPECT_THAT(told(), IsEmpty()) << "line " << line;
    settle();
    const Event written = write(one);
    call();
    two.await();
    const std::vector<MissingOrder> all = found.take();
    ASSERT_THAT(all, SizeIs(1)) << "line " << line;
    EXPECT_EQ(all[0].after.site.line(), line);
    EXPECT_THAT(all[0].after.to_string(), HasSubstr("order_told_test.cpp"));
    EXPECT_FALSE(all[0].after.lists_events);
    const std::string before = "'write' (" + one.name() + "#" + std::to_string(written.ticket());
    EXPECT_THAT(all[0].mend(), AllOf(HasSubstr("have " + two.name() + " wait"),
                                     HasSubstr("device.wait(the event of " + before)));
    settle();
  }
}

// D9: so is what the host does itself with a HostArray
TEST_F(OrderToldTest, TheHostsOwnUsesAreToldByLine) {
  const HostArray array({u8, {16}});
  const auto write_it = [&] { return one.submit("fill", {.host_writes = {array}}, [] {}); };
  std::uint32_t line = 0;
  const std::function<void()> calls[] = {
      [&] { static_cast<void>(array.at(0)), line = __LINE__; },
      [&] { static_cast<void>(array.at(0)), line = __LINE__; },
      [&] { array.set(0, 1), line = __LINE__; },
      [&] { static_cast<void>(array.values<std::uint8_t>()), line = __LINE__; },
      [&] { static_cast<void>(array.to_string()), line = __LINE__; },
      [&] { array.set_written(), line = __LINE__; }};
  for (const auto& call : calls) {
    EXPECT_TRUE(write_it().wait().ok());
    call();
    EXPECT_THAT(told(), IsEmpty()) << "line " << line;
    write_it();
    wait_unseen(one);
    call();
    const std::vector<MissingOrder> all = found.take();
    ASSERT_THAT(all, SizeIs(1)) << "line " << line;
    EXPECT_EQ(all[0].after.site.line(), line);
    EXPECT_THAT(all[0].mend(), HasSubstr("wait for the event of 'fill' (" + one.name()));
    settle();
  }
}

// D9: one schedule may be checked where others are not
TEST_F(OrderToldTest, OneMayBeChecked) {
  const FoundOrders others;
  BackendOptions options;
  options.name = "cc";
  options.sync = Sync::manual;
  const Backend manual = others.open(options);
  const Device there = manual.physical_device(0).new_virtual_device();
  const auto nothing = [] {};
  write(one);
  there.submit("manual", {.writes = {view()}}, nothing);
  there.submit("checked", {.reads = {view()}, .sync = Sync::check}, nothing);
  there.await();
  EXPECT_THAT(others.take_labels(), ElementsAre("write < checked"));
  EXPECT_THAT(found.take_labels(), IsEmpty());
}

// D9: what is told is bounded, and what is missing after that is not told
TEST_F(OrderToldTest, TenThousandAreTold) {
  const auto nothing = [] {};
  for (int k = 0; k < 10'050; ++k) {
    const BufferView each(Buffer::allocate(one, {u8, {16}}), {u8, {16}});
    one.submit("write", {.writes = {each}}, nothing);
    two.submit("read", {.reads = {each}}, nothing);
  }
  EXPECT_THAT(told(), SizeIs(10'000));
}

// D9: without a callback the log is told, and what one throws; HEDDLE_SYNC=check asks for it
TEST_F(OrderToldTest, TheLogIsTold) {
  std::vector<std::string> lines;
  set_log_hook([&](LogLevel, std::string_view text) { lines.emplace_back(text); });
  for (const bool throws : {false, true}) {
    BackendOptions options;
    options.name = "sync_cc";
    if (throws)
      options.on_missing_order = [](const MissingOrder&) { throw std::runtime_error("!"); };
    ::setenv("HEDDLE_SYNC", "Check", 1);
    const Backend asked = Backend::open(options);
    ::unsetenv("HEDDLE_SYNC");
    const Device first = asked.physical_device(0).new_virtual_device();
    const Device second = asked.physical_device(0).new_virtual_device();
    write(first);
    read(second);
    EXPECT_EQ(asked.missing_orders(), 1U);
  }
  set_log_hook({});
  EXPECT_THAT(lines, ElementsAre(HasSubstr("missing order on a buffer u8[16] of"),
                                 HasSubstr("BackendOptions::on_missing_order threw: !")));
}

// D9: devices that have gone leave nothing behind
TEST(OrderEndTest, DevicesLeaveNothing) {
  const FoundOrders found;
  const Backend backend = found.open("sync_cc");
  const Device stays = backend.physical_device(0).new_virtual_device();
  const BufferView view(Buffer::allocate(stays, {u8, {16}}), {u8, {16}});
  const BufferView side(Buffer::allocate(stays, {u8, {16}}), {u8, {16}});
  Event last = stays.submit("aside", {.writes = {side}}, [] {});
  for (int k = 0; k < 100; ++k) {
    const Device goes = backend.physical_device(0).new_virtual_device();
    last = goes.submit("write", {.writes = {view}}, [] {}, {.after = {last}});
  }
  EXPECT_LE(sched::Clocks::size(), 10U);
  // What they came after is known all the same.
  backend.physical_device(0).new_virtual_device().submit("read", {.reads = {side}}, [] {},
                                                         {.after = {last}});
  EXPECT_EQ(backend.missing_orders(), 0U);
}

// D9: malformed HEDDLE_SYNC is refused by what there is
TEST(OrderEndTest, SyncIsOneOfThree) {
  ::setenv("HEDDLE_SYNC", "checked", 1);
  const Status why = failure([] { static_cast<void>(Backend::open("sync_cc")); });
  ::unsetenv("HEDDLE_SYNC");
  EXPECT_THAT(why.to_string(),
              AllOf(HasSubstr("HEDDLE_SYNC"), HasSubstr("automatic, manual or check")));
}

// D9, D16: host work that says what it touches ends as it says, and is refused by name
TEST_F(OrderToldTest, HostWorkIsRefusedByName) {
  const auto fails = [] { return Status(ErrorCode::not_found, "no such thing"); };
  const Event bad = one.submit("fails", {.reads = {view()}}, fails, {.contain = true});
  EXPECT_THAT(bad.wait().to_string(), AllOf(HasSubstr("'fails'"), HasSubstr("no such thing")));
  const Buffer next = buffer.donate();
  const auto submit = [&] { one.submit("late", {.writes = {view()}}, [] {}); };
  EXPECT_THAT(failure(submit).to_string(), AllOf(HasSubstr("'late'"), HasSubstr("was donated")));
}

// D9: nothing is kept for programs that check nothing
TEST(OrderEndTest, EndsWithItsBackend) {
  EXPECT_FALSE(sched::Clocks::on());
  std::optional<Backend> backend = FoundOrders().open("sync_cc");
  EXPECT_TRUE(sched::Clocks::on());
  const Backend other = Backend::open("sync_cc");
  backend.reset();
  EXPECT_FALSE(sched::Clocks::on());
  EXPECT_EQ(sched::Clocks::size(), 0U);
}

// D9: memory stays flat however long a program goes on
TEST(OrderEndTest, MemoryStaysFlat) {
  const FoundOrders found;
  const Backend backend = found.open("sync_cc");
  const Device one = backend.physical_device(0).new_virtual_device();
  const Device two = backend.physical_device(0).new_virtual_device();
  const Buffer buffer = Buffer::allocate(one, {u8, {16}});
  const BufferView view(buffer, {u8, {16}});
  const auto nothing = [] {};
  const BufferView side(Buffer::allocate(one, {u8, {16}}), {u8, {16}});
  const Device third = backend.physical_device(0).new_virtual_device();
  Event last = third.submit("aside", {.writes = {side}}, nothing), old;
  std::size_t unseen = 0;
  constexpr int known = 40'000 / test::slower;  // from here on the host waits
  for (int k = 0; k < known / 4 * 5; ++k) {
    last = one.submit("write", {.writes = {view}}, nothing, {.after = {last}});
    last = two.submit("read", {.reads = {view}}, nothing, {.after = {last}});
    if (k > known) throw_if_failed(last.wait());
    if (k == 10) old = last;
    if (k != known) continue;
    unseen = sched::Clocks::size();
    // What came first is not forgotten.
    one.physical_device().new_virtual_device().submit("late", {.reads = {side}}, nothing,
                                                      {.after = {old}});
  }
  EXPECT_LE(unseen, 2'100U);
  EXPECT_LE(sched::Clocks::size(), 10U);
  EXPECT_EQ(backend.missing_orders(), 0U);
}

}  // namespace
}  // namespace heddle
