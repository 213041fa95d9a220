// Which way bytes take between two places, and what transfers keep for the next one: seen from
// devices that write down what their queues are asked.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <future>
#include <mutex>
#include <numeric>
#include <set>
#include <thread>
#include <utility>

#include "devices/device.hpp"
#include "heddle/heddle.hpp"
#include "tests/support/failure.hpp"
#include "tests/unit/scheduler/allocations.hpp"

namespace heddle {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

/// What the queues of all these devices were asked, in order: "1 to_host", with the device's
/// number.
struct Notes {
  std::mutex mutex;
  std::vector<std::string> asked;
  std::set<const void*> host_places;  // that were written by to_host
  std::size_t most_bytes = 0;         // in one operation

  void add(unsigned number, const char* what, std::size_t bytes) {
    const std::lock_guard lock(mutex);
    asked.push_back(std::to_string(number) + " " + what);
    most_bytes = std::max(most_bytes, bytes);
  }
  std::vector<std::string> taken() {
    const std::lock_guard lock(mutex);
    most_bytes = 0;
    return std::exchange(asked, {});
  }
};
Notes notes;
std::atomic<int> queues_made{0};
std::atomic<bool> makes_no_queue{false};
std::function<void()> at_next_queue;  // called once, in the call that asks for it

class NotingQueue final : public dev::Queue {
 public:
  explicit NotingQueue(unsigned number) : number_(number) {}
  Status zero(void* data, std::size_t bytes) noexcept override {
    std::memset(data, 0, bytes);
    return {};
  }
  Status from_host(void* data, const void* host, std::size_t bytes) noexcept override {
    return moved("from_host", data, host, bytes);
  }
  Status to_host(void* host, const void* data, std::size_t bytes) noexcept override {
    {
      const std::lock_guard lock(notes.mutex);
      notes.host_places.insert(host);
    }
    return moved("to_host", host, data, bytes);
  }
  Status copy(void* to, const void* from, std::size_t bytes) noexcept override {
    return moved("copy", to, from, bytes);
  }
  Status launch(const dev::Module& module, std::size_t kernel,
                const heddle_kernel_args& args) noexcept override {
    module.host_function(kernel)(&args);
    return {};
  }

 private:
  Status moved(const char* what, void* to, const void* from, std::size_t bytes) const {
    notes.add(number_, what, bytes);
    std::memcpy(to, from, bytes);
    return {};
  }
  const unsigned number_;
};

/// Numbers 1 and 2 have a memory space each, 3 and 4 one of their own in common; 4 is a peer of 1.
class NotingDevice final : public dev::PhysicalDevice {
 public:
  explicit NotingDevice(unsigned number) : number_(number) {
    properties_.name = "noting";
    properties_.memory_space = 5300 + std::min(number, 3U);
  }
  const dev::Properties& properties() const noexcept override { return properties_; }
  Status allocate(std::size_t bytes, void** data) noexcept override {
    *data = std::aligned_alloc(64, (bytes + 63) / 64 * 64);
    return {};
  }
  void release(void* data, std::size_t /*bytes*/) noexcept override { std::free(data); }
  Status new_queue(dev::Completions& /*completions*/,
                   std::unique_ptr<dev::Queue>* queue) noexcept override {
    if (makes_no_queue) return Status(ErrorCode::unavailable, "no queue today");
    ++queues_made;
    if (const auto call = std::exchange(at_next_queue, nullptr)) call();
    return dev::make_queue<NotingQueue>(queue, number_);
  }
  bool is_peer_of(const PhysicalDevice& other) const noexcept override {
    const auto* const noting = dynamic_cast<const NotingDevice*>(&other);
    return number_ == 4 && noting != nullptr && noting->number_ == 1;
  }

 private:
  const unsigned number_;
  dev::Properties properties_;
};

std::vector<std::weak_ptr<dev::PhysicalDevice>> devices_made;

Backend open_noting() {
  static const bool registered = [] {
    register_backend({"noting", "cc", sched::Mode::threaded, [] {
                        std::vector<std::shared_ptr<dev::PhysicalDevice>> devices;
                        for (unsigned number = 1; number <= 4; ++number)
                          devices.push_back(std::make_shared<NotingDevice>(number));
                        devices_made.assign(devices.begin(), devices.end());
                        return devices;
                      }});
    return true;
  }();
  static_cast<void>(registered);
  return Backend::open("noting");
}

class RouteTest : public testing::Test {
 protected:
  RouteTest() {
    for (const Device& each : {one, two, three, four, here}) each.await();
    notes.taken();
    queues_made = 0;
  }
  static Device open(const Backend& of, int ordinal) {
    return of.physical_device(ordinal).new_virtual_device();
  }
  static BufferView make(const Device& on, std::int64_t count = 4) {
    const ArrayType type{i32, {count}};
    BufferView view(Buffer::allocate(on, type), type);
    on.await();
    return view;
  }
  static void write(const Device& on, const BufferView& view, std::vector<std::int32_t> values) {
    ASSERT_TRUE(view.from_host(on, std::as_bytes(std::span(values))).wait().ok());
  }
  static std::vector<std::int32_t> read(const Device& on, const BufferView& view) {
    std::vector<std::int32_t> values(view.num_bytes() / sizeof(std::int32_t));
    EXPECT_TRUE(view.to_host(on, std::as_writable_bytes(std::span(values))).wait().ok());
    return values;
  }
  /// A context in which `t` has that value everywhere.
  Context filled(const Device& on, const Tensor& t, double value) const {
    Index i;
    Program fill("fill");
    fill << (t(i) = Expr(value));
    const Routine run = Context(on).link(noting.compile(fill));
    EXPECT_TRUE(run.schedule().wait().ok());
    return run.context();
  }
  /// A routine that adds the merge buffer of `t` to it.
  Routine adder(const Device& on, const Tensor& t) const {
    Index i;
    Program add("add");
    add << (t(i) += merge(t)(i));
    return Context(on).link(noting.compile(add));
  }
  /// What queues are asked when `on` copies from a place of one to a place of another.
  static std::vector<std::string> copied(const Device& from, const Device& to, const Device& on) {
    const BufferView source = make(from), target = make(to);
    write(from, source, {1, 2, 3, 4});
    notes.taken();
    EXPECT_TRUE(target.copy_from(on, source).wait().ok());
    std::vector<std::string> asked = notes.taken();
    EXPECT_THAT(read(to, target), ElementsAre(1, 2, 3, 4));
    notes.taken();
    return asked;
  }
  static std::vector<std::int32_t> counting(std::size_t count) {
    std::vector<std::int32_t> values(count);
    std::iota(values.begin(), values.end(), 7);
    return values;
  }

  const Backend noting = open_noting(), near = Backend::open("sync_cc");
  const Device one = open(noting, 0), two = open(noting, 1), three = open(noting, 2),
               four = open(noting, 3), here = open(near, 0);
};

// D5: the two devices decide the way: bytes in one memory are copied there, also where the third
// device that asks does not reach it; the host's memory is one of both sides where it can be; peers
// copy between their memories; all others go through the host
TEST_F(RouteTest, IsByTheTwoDevices) {
  EXPECT_THAT(copied(three, three, three), ElementsAre("3 copy"));
  EXPECT_THAT(copied(three, four, three), ElementsAre("3 copy"));
  EXPECT_THAT(copied(three, four, one), ElementsAre("4 copy"));
  EXPECT_THAT(copied(here, here, one), IsEmpty());
  EXPECT_THAT(copied(here, one, one), ElementsAre("1 from_host"));
  EXPECT_THAT(copied(here, one, here), ElementsAre("1 from_host"));
  EXPECT_THAT(copied(two, here, here), ElementsAre("2 to_host"));
  EXPECT_THAT(copied(one, here, two), ElementsAre("1 to_host"));
  EXPECT_THAT(copied(one, four, four), ElementsAre("4 copy"));
  EXPECT_THAT(copied(four, one, two), ElementsAre("4 copy"));
  EXPECT_THAT(copied(one, two, two), ElementsAre("1 to_host", "2 from_host"));
  EXPECT_THAT(copied(one, three, here), ElementsAre("1 to_host", "3 from_host"));
  const BufferView same = make(one);
  EXPECT_TRUE(same.copy_from(two, same).wait().ok());
  EXPECT_THAT(notes.taken(), IsEmpty());
}

// D5: queues and host memory that a transfer needs beside its device's own are there for the next
TEST_F(RouteTest, WhatATransferTakesIsKept) {
  const BufferView source = make(one), target = make(two), other = make(three);
  notes.host_places.clear();
  for (std::int32_t k = 0; k < 10; ++k) {
    write(one, source, {k, 2, 3, 4});
    EXPECT_TRUE(target.copy_from(two, source).wait().ok());
    EXPECT_TRUE(other.copy_from(two, target).wait().ok());
    EXPECT_THAT(read(three, other), ElementsAre(k, 2, 3, 4));
  }
  EXPECT_EQ(queues_made, 2);  // one of 1 and one of 3, for 2
  notes.host_places.clear();
  for (int k = 0; k < 10; ++k) EXPECT_TRUE(target.copy_from(two, source).wait().ok());
  EXPECT_EQ(notes.host_places.size(), 1u);
}

// D5, D12: what is staged goes in pieces of a bounded size, in the order that overlapping views
// need
TEST_F(RouteTest, StagesInPieces) {
  constexpr std::size_t count = (std::size_t{9} << 20) / sizeof(std::int32_t) + 3;
  const std::vector<std::int32_t> values = counting(count);
  const BufferView source = make(one, count), target = make(two, count);
  write(one, source, values);
  notes.taken();
  EXPECT_TRUE(target.copy_from(two, source).wait().ok());
  EXPECT_EQ(notes.most_bytes, std::size_t{4} << 20);
  EXPECT_THAT(notes.taken(), ElementsAre("1 to_host", "2 from_host", "1 to_host", "2 from_host",
                                         "1 to_host", "2 from_host"));
  EXPECT_TRUE(read(two, target) == values);
  const ArrayType most{i32, {count - 1}};
  const BufferView low(target.buffer(), most), high(target.buffer(), most, sizeof(std::int32_t));
  EXPECT_TRUE(high.copy_from(two, low).wait().ok());
  std::vector<std::int32_t> expected = values;
  std::ranges::copy_backward(values.begin(), values.end() - 1, expected.end());
  EXPECT_TRUE(read(two, target) == expected);
  EXPECT_TRUE(low.copy_from(two, high).wait().ok());
  std::ranges::copy(values.begin(), values.end() - 1, expected.begin());
  EXPECT_TRUE(read(two, target) == expected);
}

// D5, D16, bad input: without memory to stage a copy it is refused at the call, which names the
// view, both devices and the bytes; the next one is not
TEST_F(RouteTest, NoMemoryForStagingIsRefusedByName) {
  const BufferView source = make(one), target = make(two);
  write(one, source, {1, 2, 3, 4});
  Status refused;
  {
    const NoLargeMemory none(10'000);
    refused = failure([&] { target.copy_from(two, source); });
  }
  EXPECT_EQ(refused.code(), ErrorCode::exhausted);
  EXPECT_THAT(refused.to_string(), AllOf(HasSubstr("i32[4]"), HasSubstr("16 bytes"),
                                         HasSubstr("from " + one.name() + " to " + two.name()),
                                         HasSubstr("no host memory to stage it")));
  EXPECT_TRUE(target.copy_from(two, source).wait().ok());
  EXPECT_THAT(read(two, target), ElementsAre(1, 2, 3, 4));
}

// B5, D16, S10: a device that makes no queue refuses what needs one, in its own words, and nothing
// of it happens
TEST_F(RouteTest, DevicesThatMakeNoQueueSayWhy) {
  const BufferView source = make(one), target = make(two);
  write(one, source, {1, 2, 3, 4});
  makes_no_queue = true;
  for (const std::function<void()>& use : std::initializer_list<std::function<void()>>{
           [&] { target.copy_from(two, source); }, [&] { static_cast<void>(open(noting, 1)); }}) {
    const Status refused = failure([&] { use(); });
    EXPECT_EQ(refused.code(), ErrorCode::unavailable);
    EXPECT_THAT(refused.to_string(), AllOf(HasSubstr("no queue today"), HasSubstr("noting:1.")));
  }
  makes_no_queue = false;
  two.await();
  EXPECT_TRUE(target.copy_from(two, source).wait().ok());
  EXPECT_THAT(read(two, target), ElementsAre(1, 2, 3, 4));
}

// D8, D16: a merge that cannot have what it takes is refused by name, and what was loaded before
// stays
TEST_F(RouteTest, RefusedMergesKeepWhatWasLoaded) {
  const Tensor g("g", f32, {2});
  const Routine consumer = adder(one, g);
  const Context loaded = filled(four, g, 5), other = filled(two, g, 7);
  EXPECT_TRUE(load_merge(consumer, loaded, MergeMode::copy).event.wait().ok());
  makes_no_queue = true;
  const Status refused = failure([&] { merge(consumer, other, MergeMode::copy); });
  makes_no_queue = false;
  EXPECT_EQ(refused.code(), ErrorCode::unavailable);
  EXPECT_THAT(refused.to_string(), AllOf(HasSubstr("'g'"), HasSubstr("no queue today")));
  consumer.schedule();
  EXPECT_THAT(consumer.context().read<float>(g), ElementsAre(5, 5));
  EXPECT_TRUE(merge(consumer, other, MergeMode::copy).wait().ok());
  EXPECT_THAT(consumer.context().read<float>(g), ElementsAre(12, 12));
}

// D7, D8: what a merge found out about the merge buffer holds until it has its ticket: a load of
// another thread, tried meanwhile, comes after it
TEST_F(RouteTest, NoLoadComesBetweenAMergeAndItsTicket) {
  const Tensor g("g", f32, {2}), h("h", f32, {3});
  const Routine consumer = adder(one, g), next = adder(one, h);
  const Context of_g = filled(two, g, 7), of_h = filled(one, h, 9);
  one.await();
  std::promise<Event> loaded;
  std::future<Event> load_ended = loaded.get_future();
  std::thread loads;
  at_next_queue = [&] {
    loads = std::thread([&] { loaded.set_value(load_merge(one, h, of_h, MergeMode::copy).event); });
    static_cast<void>(load_ended.wait_for(std::chrono::milliseconds(200)));
  };
  const Event merged = merge(consumer, of_g, MergeMode::copy);
  loads.join();
  EXPECT_LT(merged.ticket(), load_ended.get().ticket());
  next.schedule();
  EXPECT_THAT(next.context().read<float>(h), ElementsAre(9, 9, 9));
  EXPECT_THAT(consumer.context().read<float>(g), ElementsAre(7, 7));
}

// D13: a device keeps no queue of one that nobody knows any more
TEST_F(RouteTest, QueuesOfDevicesThatWentAreLetGo) {
  std::vector<std::weak_ptr<dev::PhysicalDevice>> gone;
  for (int k = 0; k < 3; ++k) {
    const Backend other = open_noting();
    const Device away = open(other, 1);
    const BufferView source = make(away), target = make(one);
    write(away, source, {1, 2, 3, k});
    EXPECT_TRUE(target.copy_from(one, source).wait().ok());
    EXPECT_THAT(read(one, target), ElementsAre(1, 2, 3, k));
    gone.push_back(devices_made[1]);
  }
  const auto left = [&](const auto& physical) { return !physical.expired(); };
  EXPECT_THAT(std::ranges::count_if(gone, left), testing::Le(1));
}

}  // namespace
}  // namespace heddle
