// The life of executors: failures that many wait for, devices that fail, the end.
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <functional>
#include <future>
#include <memory>
#include <optional>
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

class ExecutorLifeTest : public ExecutorsFixture {
 protected:
  static long resident_kib() {
    std::ifstream status("/proc/self/status");
    long kib = 0;
    for (std::string word; status >> word;) {
      if (word == "VmRSS:") status >> kib;
    }
    return kib;
  }
  /// Whether `act` ends. Where it does not, its thread stays.
  static bool ends_soon(std::function<void()> act) {
    std::promise<void> ended;
    const std::future<void> end = ended.get_future();
    std::thread([act = std::move(act), ended = std::move(ended)]() mutable {
      act();
      act = nullptr;
      ended.set_value();
    }).detach();
    return end.wait_for(std::chrono::seconds(5)) == std::future_status::ready;
  }
};
HEDDLE_CONFORMANCE_SUITE(ExecutorLifeTest);

// F7: what was finalised refuses by name; results stay
TEST_P(ExecutorLifeTest, FinalisedOnesRefuse) {
  const Executor inc = plus_one();
  const Executor same = inc;
  const auto compiled = inc.compile(ArrayType{f32, {2}});
  const Array x = row({1, 2});
  Gate gate(device);
  const Array y = inc(x);
  inc.finalize();
  same.finalize();
  const auto finalised = HasSubstr("executor 'inc' was finalised");
  EXPECT_THAT(refusal(ErrorCode::failed_precondition, [&] { same(donate(x)); }), finalised);
  EXPECT_THAT(refusal(ErrorCode::failed_precondition, [&] { compiled(x); }), finalised);
  EXPECT_THAT(refusal(ErrorCode::failed_precondition,
                      [&] { static_cast<void>(inc.compile(ArrayType{f32, {2}})); }),
              finalised);
  EXPECT_THAT(refusal(ErrorCode::failed_precondition,
                      [&] { static_cast<void>(inc.compile_async(ArrayType{f32, {3}}).get()); }),
              finalised);
  EXPECT_EQ(inc.statistics().entries, 0U);
  EXPECT_TRUE(x.live());
  gate.open();
  EXPECT_THAT(y.values<float>(), ElementsAre(2, 3));
}

// F5: a function that fails is told to all who wait for it, and the next call tries anew
TEST_P(ExecutorLifeTest, AllHearOfAFailingFunction) {
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

// F5: so is a compiler that fails
TEST_P(ExecutorLifeTest, AllHearOfAFailingCompiler) {
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

// F5: a compile that is cancelled fails the calls that wait for it; the next call works
TEST_P(ExecutorLifeTest, AllHearOfACancelledCompile) {
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

// A call that needs what it is being traced for is refused, and no other
TEST_P(ExecutorLifeTest, RecursionIsRefused) {
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

// F7: finalising amid calls lets each end or refuses it, and nothing is left
TEST_P(ExecutorLifeTest, FinalisingAmidCallsLosesNone) {
  device.await();
  const std::uint64_t before = device.statistics().bytes_in_use;
  {
    const Executor inc = plus_one();
    std::atomic<int> ended = 0, accepted = 0;
    std::atomic<bool> finalised = false;
    std::thread finaliser([&] {
      wait_until([&] { return ended > 200; });
      inc.finalize();
      finalised = true;
    });
    in_threads(4, [&](int t) {
      const Array x = row({static_cast<float>(t)});
      for (int k = 0; k < 250; ++k, ++ended) {
        const bool after = finalised;
        const auto tried = inc.try_call(x);
        if (tried) {
          ++accepted;
          EXPECT_FALSE(after);
          EXPECT_EQ(tried.results->item<float>(), static_cast<float>(t + 1));
        } else {
          EXPECT_THAT(text(tried.status), HasSubstr("executor 'inc' was finalised"));
        }
      }
    });
    finaliser.join();
    EXPECT_GE(accepted, 200);
    EXPECT_EQ(inc.statistics().calls, 1000U);
    EXPECT_EQ(inc.statistics().entries, 0U);
  }
  device.await();
  EXPECT_EQ(device.statistics().bytes_in_use, before);
}

// F7: finalising waits for compiles that are under way, of which nothing can be called then
TEST_P(ExecutorLifeTest, FinalisingWaitsForCompiles) {
  std::atomic<bool> inside = false, go_on = false, finalised = false;
  const Executor inc(device,
                     [&](Node x) {
                       inside = true;
                       wait_until([&] { return go_on.load(); });
                       return x + 1;
                     },
                     {.name = "inc"});
  const auto pending = inc.compile_async(ArrayType{f32, {1}});
  wait_until([&] { return inside.load(); });
  std::thread finaliser([&] {
    inc.finalize();
    finalised = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_FALSE(finalised);
  go_on = true;
  finaliser.join();
  EXPECT_EQ(inc.statistics().entries, 0U);
  const auto compiled = pending.get();
  EXPECT_THAT(refusal(ErrorCode::failed_precondition, [&] { compiled(row({1})); }),
              HasSubstr("executor 'inc' was finalised"));
}

// Who finalises an executor inside of its own call would wait for itself, and is refused
TEST_P(ExecutorLifeTest, CallsDoNotFinaliseTheirOwnExecutor) {
  std::function<void()> finalise;
  const Executor inc(device, [&](Node x) {
    finalise();
    return x + 1;
  });
  finalise = [&] { inc.finalize(); };
  EXPECT_THAT(refusal(ErrorCode::failed_precondition, [&] { inc(row({1})); }),
              HasSubstr("finalised inside of one of its own calls"));
  finalise = [] {};
  EXPECT_THAT(inc(row({1})).values<float>(), ElementsAre(2));
}

// Nor does who finalises it in a call of another one, which that call makes
TEST_P(ExecutorLifeTest, NestedCallsDoNotFinaliseTheOuterExecutor) {
  struct Nest {
    explicit Nest(const Device& device)
        : inner(device,
                [this](Node x) {
                  outer.finalize();
                  return x + 1;
                }),
          outer(device, [this](Node x) {
            static_cast<void>(inner(1.0F));
            return x + 1;
          }) {}
    Executor<std::function<Node(Node)>> inner, outer;
  };
  const auto nest = std::make_shared<Nest>(device);
  EXPECT_TRUE(ends_soon([nest] {
    EXPECT_THAT(text(nest->outer.try_call(1.0F).status),
                HasSubstr("finalised inside of one of its own calls"));
  }));
}

// S25: threads that trace what the other one waits for are told, and do not wait for ever
TEST_P(ExecutorLifeTest, CyclesOfThreadsAreRefused) {
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

#ifndef HEDDLE_SANITIZED  // which keep what was freed
// F7: executors keep nothing of devices that have gone, on which they were called
TEST_P(ExecutorLifeTest, GoneDevicesLeaveNothing) {
  const Executor inc = plus_one();
  const auto call_elsewhere = [&](int times) {
    for (int k = 0; k < times; ++k) inc.on(another())(HostArray(ArrayType{f32, {1 << 18}})).wait();
  };
  call_elsewhere(20);
  const long before = resident_kib();
  call_elsewhere(40);
  EXPECT_LT(resident_kib() - before, 20000);  // one has 1 MiB, and gives 1 MiB
}
#endif

// A device that failed takes no calls, and leaves arguments alone, until it is recovered
TEST_P(ExecutorLifeTest, FailedDevicesRefuse) {
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

// Executors keep their devices, results keep what they need, compiles go on, whoever goes first
TEST_P(ExecutorLifeTest, GoInAnyOrder) {
  std::optional<Array> y, z;
  const Device other = another();
  {
    Gate gate(other);
    const Backend opened = Backend::open(GetParam());
    std::optional<Device> own = opened.physical_device(0).new_virtual_device();
    std::optional<Executor<Node (*)(Node)>> inc(std::in_place, *own, +[](Node x) { return x + 1; });
    const Array x(*own, Values{1});
    own->wait(gate.opened);
    own.reset();
    y = (*inc)(x);
    z = inc->on(other)(*y);
    const auto pending = inc->compile_async(ArrayType{f32, {1}});
    inc.reset();
    EXPECT_THAT(pending.get()(*y).status().code(), ErrorCode::ok);
    EXPECT_FALSE(y->done());
  }
  EXPECT_THAT(y->values<float>(), ElementsAre(2));
  EXPECT_THAT(z->values<float>(), ElementsAre(3));
}

// D2: what calls that wait use yet goes back once they have ended, whoever let it go and trims
TEST_P(ExecutorLifeTest, TrimmedMemoryGoesAfterCalls) {
  if (GetParam().starts_with("sync_")) return;  // its calls do not wait
  const auto add = adder();
  const Values values(100'000, 1);
  Array x = row(values);
  add(x, x).wait();
  device.await();
  device.trim();
  Gate gate(device);
  for (int k = 0; k < 3; ++k) x = add(x, x);
  const Array kept = x;
  x = row({0});
  device.trim();
  EXPECT_GE(device.statistics().bytes_cached, 400'000U);
  gate.open();
  EXPECT_EQ(kept.values<float>(), Values(100'000, 8));
  wait_until([&] {
    device.trim();
    return device.statistics().bytes_cached < 400'000U;
  });
}

// F7: the last handle may go in a logger of its own, whose call ends well
TEST_P(ExecutorLifeTest, LastHandlesGoInTheirOwnCalls) {
  for (int k = 0; k < 3; ++k) {
    auto* inc = static_cast<Executor<Node (*)(Node)>*>(nullptr);
    ExecutorOptions options{.name = "inc"};
    options.logger = [&](const LoggedNodes&) { delete std::exchange(inc, nullptr); };
    inc = new Executor<Node (*)(Node)>(plus_one(std::move(options)));
    const Array y = (*inc)(row({1, 2}));
    EXPECT_EQ(inc, nullptr);
    EXPECT_THAT(y.values<float>(), ElementsAre(2, 3));
  }
}

}  // namespace
}  // namespace heddle
