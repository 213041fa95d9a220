// Failures in executors and their reports: functions, compilers, devices, recursive calls.
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>

#include "tests/device/executors_fixture.hpp"

namespace heddle {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

class ExecutorFailuresTest : public ExecutorsFixture {};
HEDDLE_CONFORMANCE_SUITE(ExecutorFailuresTest);

// F5: a failing function fails every waiting call, and the next call retries
TEST_P(ExecutorFailuresTest, AllHearOfAFailingFunction) {
  std::atomic<bool> broken = true;
  std::function<std::uint64_t()> misses;
  const Executor inc(device, [&](Node x) {
    if (!broken) return x + 1;
    wait_until([&] { return misses() == 8; });
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    throw std::runtime_error("no weights");
  });
  misses = [&] { return inc.statistics().misses; };
  const Array x = row({1});
  in_threads(8, [&](int) {
    const Status told = inc.try_call(donate(x)).status;
    EXPECT_EQ(told.code(), ErrorCode::invalid_argument);
    EXPECT_THAT(text(told), HasSubstr("no weights"));
  });
  EXPECT_LT(inc.statistics().traces, 8U);
  EXPECT_EQ(inc.statistics().compiles, 0U);
  EXPECT_EQ(inc.statistics().entries, 0U);
  broken = false;
  EXPECT_THAT(inc(donate(x)).values<float>(), ElementsAre(2));
}

// F5: a failing compiler likewise
TEST_P(ExecutorFailuresTest, AllHearOfAFailingCompiler) {
  std::function<std::uint64_t()> misses;
  const Executor square(
      device,
      [&](Node x) {
        if (x.dims()[0] == 3) wait_until([&] { return misses() >= 4; });
        return matmul(x, x);
      },
      {.name = "square", .compile = {.contraction_tile = ContractionTile{1000, 1000}}});
  misses = [&] { return square.statistics().misses; };
  const Array x(device, {3, 3}, Values(9, 1));
  in_threads(4, [&](int) {
    const Status told = square.try_call(donate(x)).status;
    EXPECT_EQ(told.code(), ErrorCode::invalid_argument) << text(told);
    EXPECT_THAT(text(told), HasSubstr("registers"));
  });
  EXPECT_EQ(square.try_call(x).status.code(), ErrorCode::invalid_argument);
  const ExecutorStatistics told = square.statistics();
  EXPECT_GE(told.traces, 2U);
  EXPECT_LT(told.traces, 5U);
  EXPECT_EQ(told.compiles, 0U);
  EXPECT_EQ(told.entries, 0U);
  EXPECT_TRUE(x.live());
}

// F5: a cancelled compile fails the calls that wait for the compile; the next call works
TEST_P(ExecutorFailuresTest, AllHearOfACancelledCompile) {
  std::atomic<bool> inside = false, go_on = false;
  const Executor inc(device, [&](Node x) {
    inside = true;
    wait_until([&] { return go_on.load(); });
    return x * 7 + 0.125F;
  });
  const auto pending = inc.compile_async(ArrayType{f32, {1}});
  wait_until([&] { return inside.load(); });
  const Array x = row({1});
  Status told;
  std::thread caller([&] { told = inc.try_call(donate(x)).status; });
  wait_until([&] { return inc.statistics().misses == 1; });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  pending.cancel();
  go_on = true;
  caller.join();
  EXPECT_EQ(told.code(), ErrorCode::cancelled) << text(told);
  EXPECT_EQ(failure([&] { static_cast<void>(pending.get()); }).code(), ErrorCode::cancelled);
  EXPECT_TRUE(x.live());
  EXPECT_THAT(inc(donate(x)).values<float>(), ElementsAre(7.125F));
  EXPECT_EQ(inc.statistics().entries, 1U);
}

// A call that needs the trace in progress is refused, and no other call
TEST_P(ExecutorFailuresTest, RecursionIsRefused) {
  std::function<Array(const Array&)> call;
  std::atomic<bool> same = true;
  const Array two = row({1, 2}), one = row({1});
  const Executor inc(device, [&](Node x) {
    if (x.dims()[0] == 2) static_cast<void>(call(same ? two : one));
    return x + 1;
  });
  call = [&](const Array& x) { return inc(x); };
  EXPECT_THAT(refusal(ErrorCode::failed_precondition, [&] { inc(two); }),
              HasSubstr("calls that executor with the same types"));
  same = false;
  EXPECT_THAT(inc(two).values<float>(), ElementsAre(2, 3));
  EXPECT_EQ(inc.statistics().entries, 2U);
}

// S25: a wait inside a trace for that trace's own compile is refused
TEST_P(ExecutorFailuresTest, WaitsForWhatIsTracedAreRefused) {
  struct Waiting {
    explicit Waiting(const Device& device)
        : inc(device, [this](Node x) {
            const auto pending = inc.compile_async(x.type());
            if (polite) throw_if_failed(pending.wait_for(std::chrono::hours(1)));
            static_cast<void>(pending.get());
            return x + 1;
          }) {}
    std::atomic<bool> polite = false;
    Executor<std::function<Node(Node)>> inc;
  };
  const auto waiting = std::make_shared<Waiting>(device);
  for (const bool polite : {false, true}) {
    waiting->polite = polite;
    EXPECT_TRUE(ends_soon([waiting] {
      EXPECT_THAT(text(waiting->inc.try_call(Values(1)).status),
                  HasSubstr("or waits until that is compiled"));
    }));
    EXPECT_TRUE(ends_soon([waiting] {
      EXPECT_THAT(refusal(ErrorCode::failed_precondition,
                          [&] { waiting->inc.compile_async(Values(2)).wait(); }),
                  HasSubstr("or waits until that is compiled"));
    }));
  }
}

// S25: threads whose traces wait for each other get an error instead of a deadlock
TEST_P(ExecutorFailuresTest, CyclesOfThreadsAreRefused) {
  struct Cycle {
    explicit Cycle(const Device& device)
        : inc(device, [this](Node x) {
            ++inside;
            wait_until([&] { return inside >= 2; });
            static_cast<void>(inc(Values(x.dims()[0] == 1 ? 2 : 1)));
            return x + 1;
          }) {}
    std::atomic<int> inside = 0;
    Executor<std::function<Node(Node)>> inc;
  };
  const auto cycle = std::make_shared<Cycle>(device);
  EXPECT_TRUE(ends_soon([cycle] {
    std::atomic<int> refused = 0;
    in_threads(2, [&](int t) {
      const Status told = cycle->inc.try_call(Values(static_cast<std::size_t>(t + 1))).status;
      if (told.code() == ErrorCode::failed_precondition) ++refused;
    });
    EXPECT_GE(refused, 1);
  }));
}

// A failed device refuses calls, and leaves their arguments unchanged, until recovery
TEST_P(ExecutorFailuresTest, FailedDevicesRefuse) {
  const Device other = another();
  const Executor inc = plus_one();
  const Array x = row({1});
  inc(x).wait();
  static_cast<void>(device.submit("sensor", [] { throw std::runtime_error("unplugged"); }).wait());
  const Status told = inc.try_call(donate(x)).status;
  EXPECT_EQ(told.code(), ErrorCode::device_failed);
  EXPECT_THAT(text(told), HasSubstr("unplugged"));
  EXPECT_EQ(inc.try_call(x).status.code(), ErrorCode::device_failed);
  EXPECT_EQ(inc.try_call(2.0F).status.code(), ErrorCode::device_failed);
  EXPECT_TRUE(x.live());
  EXPECT_THAT(inc.on(other)(x).values<float>(), ElementsAre(2));
  device.recover();
  EXPECT_THAT(inc(donate(x)).values<float>(), ElementsAre(2));
}

}  // namespace
}  // namespace heddle
