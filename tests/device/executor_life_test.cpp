// The life of executors: memory with pending calls, finalising.
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "tests/device/executors_fixture.hpp"

namespace heddle {
namespace {

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
};
HEDDLE_CONFORMANCE_SUITE(ExecutorLifeTest);

// F7: a finalised executor refuses calls by name; results stay valid
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

// F7: finalising during calls lets each call finish or refuses it, without leaks
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

// F7: finalising waits for compiles in progress, whose functions cannot be called afterwards
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

// F7: finalising on a worker lets the worker run other tasks, which a call in progress may need
TEST_P(ExecutorLifeTest, FinalisingWorkersRunWhatCallsNeed) {
  if (GetParam().starts_with("sync_")) return;  // has no workers
  EXPECT_TRUE(ends_soon([name = GetParam()] {
    BackendOptions options{.name = name};
    options.scheduling.workers = 1;
    const auto opened = Backend::open(options).physical_device(0);
    const Device home = opened.new_virtual_device(), other = opened.new_virtual_device(),
                 third = opened.new_virtual_device();
    std::atomic<bool> inside = false, finalising = false;
    const Executor inc(home, [&](Node x) {
      inside = true;
      wait_until([&] { return finalising.load(); });
      throw_if_failed(other.submit("needed", [] {}).wait());
      return x + 1;
    });
    std::thread caller([&] { EXPECT_THAT(inc(1.0F).item<float>(), 2.0F); });
    wait_until([&] { return inside.load(); });
    const Event end = third.submit("finalises", [&] {
      finalising = true;
      inc.finalize();
    });
    EXPECT_EQ(text(end.wait()), "ok");
    caller.join();
  }));
}

// Finalising an executor inside its own call would wait for the call, and is refused
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

// Finalising the outer executor in a nested call of a second executor is refused too
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

#ifndef HEDDLE_SANITIZED  // sanitizers keep freed memory
// F7: executors keep no memory for destroyed devices of earlier calls
TEST_P(ExecutorLifeTest, GoneDevicesLeaveNothing) {
  const Executor inc = plus_one();
  const auto call_elsewhere = [&](int times) {
    for (int k = 0; k < times; ++k) inc.on(another())(HostArray(ArrayType{f32, {1 << 18}})).wait();
  };
  call_elsewhere(20);
  const long before = resident_kib();
  call_elsewhere(40);
  EXPECT_LT(resident_kib() - before, 20000);  // each call has 1 MiB, and returns 1 MiB
}
#endif

// Executors keep their devices, results keep their memory, compiles continue, in any order of
// destruction
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

// D2: memory of waiting calls is returned once they have ended, whichever thread drops it and trims
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

// D2: zeros written by a task reach a waiting call, which owns no memory
TEST_P(ExecutorLifeTest, ZerosComeThoughTheirArrayIsDropped) {
  const auto add = adder();
  const Values ones(1'000, 1);
  add(row(ones), row(ones)).wait();
  Gate gate(device);
  std::optional<Array> x = row(ones);
  const Array twice = add(*x, *x);
  x.reset();
  x = Array::zeros(device, {f32, {1'000}});  // in the same memory, after the pending read
  const Array zeros = add(*x, *x);
  x.reset();
  gate.open();
  EXPECT_EQ(zeros.values<float>(), Values(1'000, 0));
  EXPECT_EQ(twice.values<float>(), Values(1'000, 2));
}

// D2: memory without a size class, as a device near its bound allocates, outlives pending calls too
TEST_P(ExecutorLifeTest, MemoryOfNoClassGoesAfterCalls) {
  constexpr std::size_t count = 17'500, bytes_of_class = 81'920, bytes_exact = 70'016;
  BackendOptions options{.name = GetParam()};
  options.bytes_max = 2 * bytes_of_class + bytes_exact + 100;
  const Device small = Backend::open(options).physical_device(0).new_virtual_device();
  const Executor inc(small, [](Node x) { return x + 1; });
  const Array x(small, Values(count, 1));
  inc(x).wait();
  small.await();
  Gate gate(small);
  const Array kept = inc(x);
  static_cast<void>(inc(x));
  const std::vector<Values> ours(8, Values(count, 7));
  gate.open();
  small.await();
  for (const Values& each : ours) EXPECT_EQ(each, Values(count, 7));
  EXPECT_EQ(kept.values<float>(), Values(count, 2));
}

// F7: waiting calls do not keep their device alive: dropping its last handle lets accepted tasks
// finish
TEST_P(ExecutorLifeTest, LastHandlesOfDevicesLetTasksEnd) {
  std::optional<Device> own = another();
  sched::ExternalTimeline timeline("gate");
  const Event opened = timeline.next();
  {
    const Executor inc(*own, [](Node x) { return x + 1; });
    const Array x(*own, Values{1, 2});
    inc(x).wait();
    own->await();
    own->wait(opened);
    inc(x);
  }
  std::atomic<bool> ended = false;
  own->submit("last", [&] { ended = true; });
  std::thread opener([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    static_cast<void>(timeline.signal(opened.ticket()));
  });
  own.reset();
  EXPECT_TRUE(ended);
  opener.join();
}

// F7: the last handle may be dropped in the executor's own logger, and the call succeeds
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
