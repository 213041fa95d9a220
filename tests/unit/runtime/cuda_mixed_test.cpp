// CPUs and GPUs that wait for each other: values that go from device to device, in whatever order.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "heddle/heddle.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/seeds.hpp"

namespace heddle {
namespace {

using namespace std::chrono_literals;

constexpr std::int64_t cells = 300;

/// A device with a tensor of its own, and what changes it.
struct Place {
  Place(const Backend& backend, int ordinal, const Tensor& x, const Code& code)
      : device(backend.physical_device(ordinal).new_virtual_device()),
        step(Context(device).link(code)) {
    step.context().write(x, std::vector<std::int32_t>(cells, 0));
  }
  Device device;
  Routine step;
};

/// Takes a value from one device to another, over and over: each adds one. Half of the steps wait
/// for the one before on the host, the others are given its event, or leave it to heddle.
void go_round(const Tensor& x, const std::vector<Place>& places, std::uint64_t seed,
              const std::atomic<bool>& over, std::atomic<std::uint64_t>& steps) {
  std::mt19937_64 random(seed);
  std::int32_t value = 0;
  std::size_t at = 0;
  places[at].step.context().write(x, std::vector<std::int32_t>(cells, 0));
  while (!over.load()) {
    const std::size_t to = random() % places.size();
    ScheduleOptions options;
    if (to != at) {
      const Transfer moved = copy(x, places[at].step.context(), places[to].step.context());
      const std::uint64_t how = random() % 4;
      if (how == 0) {
        ASSERT_TRUE(moved.event.wait().ok()) << moved.event.status().to_string();
      } else if (how == 1) {
        options.after.push_back(moved.event);
      }
    }
    const Event event = places[to].step.schedule({}, options);
    at = to;
    ++value;
    steps.fetch_add(1);
    if (random() % 4 == 0) {
      ASSERT_TRUE(event.wait().ok()) << event.status().to_string();
    }
    if (random() % 16 == 0) {
      ASSERT_EQ(places[at].step.context().read<std::int32_t>(x),
                std::vector<std::int32_t>(cells, value))
          << "seed " << seed;
    }
  }
  EXPECT_EQ(places[at].step.context().read<std::int32_t>(x),
            std::vector<std::int32_t>(cells, value));
}

// B4, D5, D9: kernels of CPUs and of GPUs come after each other's, whoever waits for them.
// HEDDLE_TEST_SECONDS=n goes on for so long, rather than one second.
TEST(CudaMixedTest, ValuesGoRoundCpusAndGpus) {
  BackendOptions options;
  options.name = "cuda";
  options.cuda_driver = test::cuda_standin;
  options.nvrtc = test::nvrtc_standin;
  options.cache = false;
  const Backend gpus = Backend::open(options), cpus = Backend::open("cc"),
                pooled = Backend::open("pooled_cc");
  const Tensor x("x", i32, {cells});
  const Index i;
  Program program("one more");
  program << (x(i) += 1);
  const Code on_gpus = gpus.compile(program), on_cpus = cpus.compile(program),
             on_pooled = pooled.compile(program);
  std::atomic<bool> over{false};
  std::atomic<std::uint64_t> steps{0};
  std::vector<std::thread> threads;
  const std::uint64_t seed = test::from_environment("HEDDLE_TEST_SEED", 1);
  for (std::uint64_t k = 0; k < 3; ++k) {
    threads.emplace_back([&, k] {
      std::vector<Place> places;
      places.emplace_back(gpus, 0, x, on_gpus);
      places.emplace_back(cpus, 0, x, on_cpus);
      places.emplace_back(gpus, 1, x, on_gpus);
      places.emplace_back(pooled, 0, x, on_pooled);
      places.emplace_back(gpus, 0, x, on_gpus);
      go_round(x, places, seed + k, over, steps);
    });
  }
  std::this_thread::sleep_for(
      std::chrono::seconds(test::from_environment("HEDDLE_TEST_SECONDS", 1)));
  over.store(true);
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(steps.load(), 50u);
  std::printf("%llu steps\n", static_cast<unsigned long long>(steps.load()));
}

}  // namespace
}  // namespace heddle
