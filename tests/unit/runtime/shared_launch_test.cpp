// Scheduling on several devices that share memory: what it costs, and that it never stands still.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "heddle/heddle.hpp"
#include "tests/support/failure.hpp"
#include "tests/unit/runtime/launch_cost.hpp"

namespace heddle {
namespace {

using namespace std::chrono_literals;

/// Devices, and buffers that all of them use.
class SharedLaunchTest : public testing::TestWithParam<const char*> {
 protected:
  static constexpr std::size_t devices_count = 4, buffers_count = 6;

  SharedLaunchTest() {
    options.name = GetParam();
    options.scheduling.device.queue_size = 256;
  }
  void open() {
    backend.emplace(Backend::open(options));
    for (std::size_t k = 0; k < devices_count; ++k)
      devices.push_back(backend->physical_device(0).new_virtual_device());
    for (std::size_t k = 0; k < buffers_count; ++k) {
      tensors.emplace_back("t" + std::to_string(k), f32, std::vector<std::int64_t>{8});
      buffers.push_back(Buffer::allocate(devices[k % devices_count], tensors[k].type()));
    }
    for (const Device& device : devices) device.await();
  }
  /// A routine on a device that reads some of the buffers and changes one.
  [[nodiscard]] Routine routine(std::size_t on, std::size_t target,
                                const std::vector<std::size_t>& sources) const {
    Program p("mix");
    Index i;
    Context context(devices[on]);
    Expr sum = 1.0;
    for (const std::size_t source : sources) sum = sum + tensors[source](i);
    p << (tensors[target](i) = sum);
    for (std::size_t k = 0; k < buffers_count; ++k)
      context = context.with(tensors[k], BufferView(buffers[k], tensors[k].type()));
    return context.link(backend->compile(p));
  }
  void await_all() {
    for (const Device& device : devices) EXPECT_TRUE(device.timeline().await_for(120s).ok());
  }
  /// What the host allocates to schedule all of these in turn, some rounds, while none has ended.
  [[nodiscard]] std::uint64_t cost_of_rounds(const std::vector<Routine>& in_turn) {
    const auto rounds = [&] {
      sched::ExternalTimeline gate("gate");
      const Event open = gate.next();
      for (const Device& device : devices) device.wait(open);
      const std::uint64_t before = allocations();
      for (int k = 0; k < 20; ++k) {
        for (const Routine& run : in_turn) run.schedule();
      }
      const std::uint64_t cost = allocations() - before;
      EXPECT_TRUE(gate.signal(open.ticket()).ok());
      await_all();
      return cost;
    };
    static_cast<void>(rounds());  // what is kept from the first time on
    return rounds();
  }

  BackendOptions options;
  std::optional<Backend> backend;
  std::vector<Device> devices;
  std::vector<Tensor> tensors;
  std::vector<Buffer> buffers;
};
INSTANTIATE_TEST_SUITE_P(Backends, SharedLaunchTest, testing::Values("null", "pooled_cc"));

// D16: two devices that take turns at one buffer
TEST_P(SharedLaunchTest, TurnsTakeNoMemory) {
  open();
  EXPECT_EQ(cost_of_rounds({routine(0, 0, {0}), routine(1, 0, {0})}), 0U);
}

// D16: one writes for all others, and comes after them all
TEST_P(SharedLaunchTest, ManyReadersTakeNoMemory) {
  open();
  EXPECT_EQ(cost_of_rounds(
                {routine(0, 0, {}), routine(1, 1, {0}), routine(2, 2, {0}), routine(3, 3, {0})}),
            0U);
}

// D16: one reads what another wrote in several turns, and writes what that has read
TEST_P(SharedLaunchTest, ManyBuffersTakeNoMemory) {
  open();
  EXPECT_EQ(cost_of_rounds({routine(0, 0, {4, 5}), routine(0, 1, {4, 5}), routine(0, 2, {4, 5}),
                            routine(1, 4, {0, 1, 2}), routine(1, 5, {0, 1, 2})}),
            0U);
}

// D9: hosts that schedule at once, on any devices, over any buffers, through small queues: waits
// between devices never close a cycle
TEST_P(SharedLaunchTest, AlwaysEnds) {
  constexpr int hosts = 4, rounds = 2000;
  options.scheduling.device.queue_size = 4;
  open();
  std::vector<Routine> routines;
  std::mt19937 random(17);
  const auto below = [](std::mt19937& from, std::size_t end) { return from() % end; };
  for (std::size_t k = 0; k < 24; ++k) {
    const std::size_t target = below(random, buffers_count);
    routines.push_back(routine(k % devices_count, target,
                               {(target + 1 + below(random, buffers_count - 1)) % buffers_count,
                                (target + 1 + below(random, buffers_count - 1)) % buffers_count}));
  }
  const auto work = [&](unsigned number) {
    std::mt19937 mine(number);
    for (int k = 0; k < rounds; ++k) {
      if (below(mine, 4) != 0) {
        routines[below(mine, routines.size())].schedule();
        continue;
      }
      const ArrayType some{f32, {static_cast<std::int64_t>(1 + below(mine, 7))}};
      const std::size_t to = below(mine, buffers_count);
      const std::size_t from = (to + 1 + below(mine, buffers_count - 1)) % buffers_count;
      const BufferView there(buffers[to], some), here(buffers[from], some);
      there.copy_from(devices[below(mine, devices_count)], here);
    }
  };
  std::vector<std::thread> running;
  for (unsigned k = 0; k < hosts; ++k) running.emplace_back(work, k);
  for (std::thread& each : running) each.join();
  await_all();
  std::uint64_t done = 0;
  for (const Device& device : devices) done += device.timeline().counters().done;
  EXPECT_GE(done, std::uint64_t{hosts} * rounds);
}

}  // namespace
}  // namespace heddle
