// Where tensor work runs: in the host's own loop, on few workers, on chosen processors.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sched.h>

#include <chrono>
#include <latch>
#include <mutex>
#include <set>
#include <thread>

#include "devices/device.hpp"
#include "heddle/heddle.hpp"
#include "tests/support/failure.hpp"

namespace heddle {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;

Backend open_manual() {
  [[maybe_unused]] static const bool once = [] {
    BackendSpec spec;
    spec.name = "manual_cc";
    spec.compiler = "cc";
    spec.mode = sched::Mode::manual;
    spec.devices = [] { return std::vector{dev::make_cpu_device(), dev::make_cpu_device()}; };
    register_backend(std::move(spec));
    return true;
  }();
  return Backend::open("manual_cc");
}

bool readable(int descriptor, int milliseconds) {
  pollfd waited{descriptor, POLLIN, 0};
  return ::poll(&waited, 1, milliseconds) == 1;
}

Program count_up(const Tensor& x) {
  Index i;
  Program p("count");
  p << (x(i) += 1);
  return p;
}

// S15: a row of manual mode: nothing runs but in the host's poll(), run_one() and waits, all of it
// in the host's thread; the descriptor says when there is something to do
TEST(ManualBackendTest, RunsInTheHostsLoop) {
  const Backend backend = open_manual();
  const Device device = backend.physical_device(0).new_virtual_device();
  const Device other = backend.physical_device(1).new_virtual_device();
  const Tensor x("x", i32, {2});
  const Code code = backend.compile(count_up(x));
  const Routine run = Context(device).link(code), beside = Context(other).link(code);
  const int descriptor = backend.descriptor();  // readable until the host has looked once
  while (backend.poll()) {
  }
  EXPECT_FALSE(readable(descriptor, 0));
  EXPECT_FALSE(backend.run_one());
  const Event first = run.schedule(), second = run.schedule();
  const Event there = beside.schedule();
  std::this_thread::sleep_for(20ms);
  EXPECT_FALSE(first.done() || second.done() || there.done());  // nobody else runs it
  EXPECT_TRUE(readable(descriptor, 10'000));
  EXPECT_TRUE(backend.run_one());
  EXPECT_EQ(int{first.done()} + int{second.done()} + int{there.done()}, 1);
  while (backend.poll()) {
  }
  EXPECT_TRUE(first.done() && second.done() && there.done());
  EXPECT_FALSE(readable(descriptor, 0));
  std::thread::id where;
  device.submit("where", [&] { where = std::this_thread::get_id(); });
  // Waiting runs it too.
  EXPECT_THAT(run.context().read<std::int32_t>(x), ElementsAre(2, 2));
  EXPECT_EQ(where, std::this_thread::get_id());
  EXPECT_EQ(backend.snapshot().size(), 2u);
}

// S15: transfers and merges between manual devices, in one loop; a wait on the host's own work ends
TEST(ManualBackendTest, DevicesWaitForEachOther) {
  const Backend backend = open_manual();
  const Device device = backend.physical_device(0).new_virtual_device();
  const Device other = backend.physical_device(1).new_virtual_device();
  const Tensor x("x", i32, {2});
  Index i;
  Program add("add");
  add << (x(i) += merge(x)(i));
  const Routine source = Context(device).link(backend.compile(count_up(x)));
  const Routine consumer = Context(other).link(backend.compile(add));
  TransferOptions after;
  after.after = {source.schedule()};
  const Event added = merge(consumer, source.context(), MergeMode::stream, {}, after);
  EXPECT_FALSE(added.done());
  while (!added.done()) EXPECT_TRUE(backend.run_one(10s));
  EXPECT_THAT(consumer.context().read<std::int32_t>(x), ElementsAre(1, 1));
  backend.finalize();
}

// S15: in other modes there is nothing for the host to do
TEST(ManualBackendTest, OtherModesHaveNothingForTheHost) {
  const Backend backend = Backend::open("cc");
  const Device device = backend.physical_device(0).new_virtual_device();
  device.submit("task", [] {}).wait();
  EXPECT_FALSE(backend.poll());
  EXPECT_FALSE(backend.run_one());
}

// S19: as many workers as asked for run all devices of a pooled backend
TEST(PlacingTest, PooledBackendsHaveTheWorkersAskedFor) {
  for (const std::size_t workers : {1u, 3u}) {
    BackendOptions options;
    options.name = "pooled_cc";
    options.scheduling.workers = static_cast<unsigned>(workers);
    const Backend backend = Backend::open(options);
    std::vector<Device> devices;
    for (int k = 0; k < 3; ++k) devices.push_back(backend.physical_device(0).new_virtual_device());
    std::latch inside(static_cast<std::ptrdiff_t>(workers));
    std::mutex mutex;
    std::set<std::thread::id> threads;
    const auto until = std::chrono::steady_clock::now() + 10s;
    for (std::size_t k = 0; k < devices.size(); ++k) {
      devices[k].submit("meet", [&, k] {
        {
          const std::lock_guard lock(mutex);
          threads.insert(std::this_thread::get_id());
        }
        if (k < workers) inside.count_down();
        // Only as many tasks as there are workers can be in here at once.
        while (!inside.try_wait() && std::chrono::steady_clock::now() < until)
          std::this_thread::sleep_for(1ms);
      });
    }
    for (const Device& device : devices) device.await();
    EXPECT_TRUE(inside.try_wait());
    EXPECT_EQ(threads.size(), workers);
  }
}

std::vector<int> processors_of_this_thread() {
  cpu_set_t set;
  CPU_ZERO(&set);
  EXPECT_EQ(::sched_getaffinity(0, sizeof set, &set), 0);
  std::vector<int> result;
  for (int k = 0; k < CPU_SETSIZE; ++k) {
    if (CPU_ISSET(k, &set)) result.push_back(k);
  }
  return result;
}

std::vector<int> processors_of(const Device& device) {
  std::vector<int> result;
  EXPECT_TRUE(device.submit("ask", [&] { result = processors_of_this_thread(); }).wait().ok());
  return result;
}

// S19: threads and workers of a backend are bound to processors where asked, else to none
TEST(PlacingTest, ThreadsAreBoundWhereAsked) {
  const std::vector<int> allowed = processors_of_this_thread();
  for (const char* const name : {"cc", "pooled_cc"}) {
    BackendOptions options;
    options.name = name;
    const Backend free = Backend::open(options);
    EXPECT_EQ(processors_of(free.physical_device(0).new_virtual_device()), allowed);
    options.scheduling.pin_workers = true;
    const Backend bound = Backend::open(options);
    for (int k = 0; k < bound.num_physical_devices(); ++k) {
      const auto found = processors_of(bound.physical_device(k).new_virtual_device());
      ASSERT_EQ(found.size(), 1u);
      if (options.name == "cc") {
        EXPECT_EQ(found[0], allowed[static_cast<std::size_t>(k)]);
      }
    }
  }
  BackendOptions wide;
  wide.name = "cc";
  wide.scheduling.pin_workers = true;
  wide.width = 2;
  wide.oversubscribed = true;
  const Backend pairs = Backend::open(wide);
  for (int k = 0; k < pairs.num_physical_devices(); ++k) {
    EXPECT_THAT(processors_of(pairs.physical_device(k).new_virtual_device()),
                ElementsAre(allowed[static_cast<std::size_t>(2 * k) % allowed.size()]));
  }
  BackendOptions one;
  one.name = "cc";
  one.scheduling.device.processor = static_cast<unsigned>(allowed.back());
  EXPECT_THAT(processors_of(Backend::open(one).physical_device(0).new_virtual_device()),
              ElementsAre(allowed.back()));
  one.scheduling.device.processor = 1u << 20;
  EXPECT_EQ(failure([&] {
              static_cast<void>(Backend::open(one).physical_device(0).new_virtual_device());
            }).code(),
            ErrorCode::invalid_argument);
}

}  // namespace
}  // namespace heddle
