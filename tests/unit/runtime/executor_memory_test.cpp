// Memory of the host that calls of executors take: none where they are plain; where there is none,
// a call is refused and everything stays as it was.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "heddle/heddle.hpp"
#include "tests/support/seeds.hpp"
#include "tests/unit/scheduler/allocations.hpp"

namespace heddle {
namespace {

using testing::ElementsAre;

class ExecutorMemoryTest : public testing::TestWithParam<std::string> {
 protected:
  ExecutorMemoryTest() { set_log_level(LogLevel::off); }
  ~ExecutorMemoryTest() override { set_log_level(LogLevel::warn); }
  Backend backend = Backend::open(GetParam());
  Device device = backend.physical_device(0).new_virtual_device();
  [[nodiscard]] Array row(float first) const {
    return Array(device, std::vector<float>{first, first + 1, first + 2});
  }
  /// `call` makes so many calls: once as many were under way at once as will be again.
  template <class Call>
  void expect_no_memory(const Call& call) const {
    for (int round = 0; round < 3; ++round) {
      // They wait all together, where the device has a thread.
      device.submit("hold", [] { std::this_thread::sleep_for(std::chrono::milliseconds(30)); });
      call(100);
      device.await();
    }
    const std::uint64_t before = allocations();
    call(50);
    EXPECT_EQ(allocations() - before, 0U);
    device.await();
  }
};
INSTANTIATE_TEST_SUITE_P(Modes, ExecutorMemoryTest, testing::Values("cc", "sync_cc", "pooled_cc"),
                         [](const auto& name) { return name.param; });

// F7: of few arguments or many
TEST_P(ExecutorMemoryTest, CachedCallsTakeNone) {
  const Executor few(device, [](Node x, Node y) { return x + y; });
  const Executor many(device, [](const std::array<Node, 16>& x) {
    Node sum = x[0];
    for (std::size_t k = 1; k < x.size(); ++k) sum = sum + x[k];
    return sum;
  });
  const Array x = row(1), y = row(2);
  const std::array<Array, 16> all{x, x, x, x, x, x, x, x, y, y, y, y, y, y, y, y};
  const auto call = [&](int times) {
    for (int k = 0; k < times; ++k) {
      static_cast<void>(few(x, y));
      static_cast<void>(many(all));
      Array kept = few(x, y);
      kept = few(kept, y);
    }
  };
  expect_no_memory(call);
}

// J65: also where arguments are used for the first time
TEST_P(ExecutorMemoryTest, FirstUsesTakeNone) {
  const Executor add(device, [](Node x, Node y) { return x + y; });
  const Array y = row(2);
  std::uint64_t taken = 0;
  for (int round = 0; round < 3; ++round) {
    std::vector<Array> fresh;
    for (int k = 0; k < 50; ++k) fresh.push_back(row(1));
    device.submit("hold", [] { std::this_thread::sleep_for(std::chrono::milliseconds(30)); });
    const std::uint64_t before = allocations();
    for (const Array& x : fresh) static_cast<void>(add(x, y));
    taken = allocations() - before;
    device.await();
  }
  EXPECT_EQ(taken, 0U);
}

// F7, J65: also where results lie in the memory of what is donated, by the call or by an option
TEST_P(ExecutorMemoryTest, DonatedCallsTakeNone) {
  const auto function = [](Node x) { return x * 0.5 + 1; };
  const Executor step(device, function);
  const Executor always(device, function, {.donate = {0}});
  Array x = row(1);
  const auto call = [&](int times) {
    for (int k = 0; k < times; ++k) {
      x = step(donate(x));
      x = always(x);
    }
  };
  expect_no_memory(call);
  EXPECT_THAT(x.values<float>(), testing::Each(2));
}

// F7, F6: also where state is a variable, which is updated in its place or read
TEST_P(ExecutorMemoryTest, VariablesTakeNone) {
  const Variable state("state", row(1));
  const Executor step(device,
                      [state](const Graph& g) { state.update(g, state.read(g) * 0.5 + 1); });
  const Executor sum(device, [state](const Graph& g, Node x) { return state.read(g) + x; });
  const Array x = row(0);
  const auto call = [&](int times) {
    for (int k = 0; k < times; ++k) {
      step();
      static_cast<void>(sum(x));
    }
  };
  expect_no_memory(call);
  EXPECT_THAT(state.value().values<float>(), testing::Each(2));
}

// F7: results that are dropped are memory for the next ones
TEST_P(ExecutorMemoryTest, ManyCallsTakeNoMoreOfTheDevice) {
  const Executor step(device, [](Node x, Node y) { return std::pair(x + y, x * y); });
  Array x = row(1);
  const Array y = row(0);
  std::uint64_t early = 0;
  for (int k = 0; k < 20'000; ++k) {
    x = step(x, y).first;
    if (k % 64 == 0) device.await();
    if (k == 1000) early = device.statistics().bytes_peak;
  }
  EXPECT_EQ(device.statistics().bytes_peak, early);
}

/// A call with all that calls can have.
struct Everything {
  Device device;
  Array kept, state;
  Variable<Array> total;

  explicit Everything(const Device& on)
      : device(on),
        kept(on, std::vector<float>{1, 2, 3}),
        state(on, std::vector<float>{4, 5, 6}),
        total("total", Array(on, std::vector<float>{0, 0, 0})) {}
  auto executor() const {
    ExecutorOptions options;
    options.on_side_parameters = [bias = kept](SideParameters& sides) { sides.set("bias", bias); };
    return Executor(
        device,
        [total = total](const Graph& graph, Node x, Node before, Node row) {
          const Node bias = graph.parameter("bias", {f32, {3}});
          total.update(graph, total.read(graph) + x);
          return std::pair(before + bias, x * row);
        },
        options);
  }
};

// F4, O19: at whichever point a first or a later call finds none. HEDDLE_TEST_STEP=1 looks at each
// of the first 2,000.
TEST_P(ExecutorMemoryTest, WithoutMemoryCallsAreRefusedAndNothingIsTaken) {
  const std::vector<float> row{1, 1, 2};
  {
    static_cast<void>(Everything(device).executor());
  }
  std::uint64_t refused = 0;
  for (const bool first : {true, false}) {
    Everything all(device);
    auto executor = all.executor();
    if (!first) static_cast<void>(executor(all.kept, all.state, row));
    bool accepted = false;
    const std::uint64_t step = first ? test::from_environment("HEDDLE_TEST_STEP", 23) : 1;
    for (std::uint64_t granted = 0; granted < 2000 && !accepted; granted += step) {
      if (first) executor = Everything(all).executor();
      const std::vector<float> total = all.total.value().values<float>();
      try {
        const NoMemory none(granted);
        static_cast<void>(executor(all.kept, donate(all.state), row));
        accepted = true;  // all that follow have enough, too
        continue;
      } catch (const std::exception&) {
        ++refused;
      }
      ASSERT_TRUE(all.state.live()) << granted;
      ASSERT_THAT(all.state.values<float>(), ElementsAre(4, 5, 6)) << granted;
      ASSERT_EQ(all.total.value().values<float>(), total) << granted;
      if (granted % 16 != 0) continue;
      const auto [sum, product] = executor(all.kept, all.state, row);
      ASSERT_THAT(sum.values<float>(), ElementsAre(5, 7, 9)) << granted;
      ASSERT_THAT(product.values<float>(), ElementsAre(1, 2, 6)) << granted;
    }
    EXPECT_EQ(all.state.live(), !accepted);
  }
  EXPECT_GT(refused, 100U);
}

}  // namespace
}  // namespace heddle
