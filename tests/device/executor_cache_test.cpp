// Caches of executors: one compile per set of argument types, for any number of callers, and full
// caches.
#include <atomic>
#include <cmath>
#include <cstddef>
#include <optional>
#include <thread>
#include <vector>

#include "tests/device/executors_fixture.hpp"

namespace heddle {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

class ExecutorCacheTest : public ExecutorsFixture {
 protected:
  /// Different argument types with the same kernels: last() adds one to the last array of a list,
  /// the only array without NaN.
  using List = std::vector<Array>;
  [[nodiscard]] List list(int count, float value = 1) const {
    List made(static_cast<std::size_t>(count - 1), row({NAN}));
    made.push_back(row({value}));
    return made;
  }
  static Node last(const std::vector<Node>& nodes) { return nodes.back() + 1; }
};
HEDDLE_CONFORMANCE_SUITE(ExecutorCacheTest);

// F5: one trace and one compile for arguments of the same types, however many threads call at once
TEST_P(ExecutorCacheTest, ManyThreadsCompileOnce) {
  constexpr int shapes = 30;
  const Executor inc(device, last);
  std::vector<List> lists;
  for (int k = 0; k < shapes; ++k) lists.push_back(list(k + 1, static_cast<float>(k)));
  in_threads(64, [&](int t) {
    for (int k = t; k < t + shapes; ++k) {
      const int mine = k % shapes;
      EXPECT_EQ(inc(lists[static_cast<std::size_t>(mine)]).item<float>(),
                static_cast<float>(mine + 1));
    }
  });
  const ExecutorStatistics told = inc.statistics();
  EXPECT_EQ(told.traces, 30U);
  EXPECT_EQ(told.compiles, 30U);
  EXPECT_EQ(told.entries, 30U);
  EXPECT_EQ(told.calls, 64U * shapes);
}

// F5: during a trace of one shape, calls with other shapes proceed, and calls with the same shape
// wait
TEST_P(ExecutorCacheTest, OthersGoOnMeanwhile) {
  std::atomic<bool> slow = false, go_on = false;
  const Executor inc(device, [&](Node x) {
    if (x.dims()[0] == 2) {
      slow = true;
      wait_until([&] { return go_on.load(); });
    }
    return x + 1;
  });
  std::atomic<int> ended = 0;
  const auto same = [&](int) {
    EXPECT_THAT(inc(row({1, 2})).values<float>(), ElementsAre(2, 3));
    ++ended;
  };
  std::thread waiting([&] { in_threads(2, same); });
  wait_until([&] { return slow.load(); });
  EXPECT_THAT(inc(row({5})).values<float>(), ElementsAre(6));
  EXPECT_THAT(inc(row({6})).values<float>(), ElementsAre(7));
  EXPECT_EQ(inc.statistics().entries, 1U);
  EXPECT_EQ(ended, 0);
  go_on = true;
  waiting.join();
  EXPECT_EQ(inc.statistics().traces, 2U);
}

// A full cache refuses new types, reports how they differ from the closest types, and serves cached
// types
TEST_P(ExecutorCacheTest, FullCachesNameTheClosestTypes) {
  const Executor step(device,
                      [](const std::vector<Node>& list, Node x) { return x + last({list[0]}); },
                      {.name = "step", .cache_max = 2, .argument_names = {"list", "x"}});
  const Array x = row({1}), y = row({1, 2}), z = row({1, 2, 3});
  step(List{x, y}, x);
  step(List{x, y, z}, x);
  EXPECT_THAT(refusal(ErrorCode::exhausted, [&] { step(List{x, y, x}, donate(y)); }),
              AllOf(HasSubstr("executor 'step' has as many graphs as its cache_max, 2"),
                    HasSubstr("other types: argument 2 'list/2': f32[1], compiled for f32[3], "
                              "argument 3 'x': f32[2], compiled for f32[1]; pad arguments"),
                    HasSubstr("ExecutorOptions::cache_max")));
  EXPECT_THAT(
      refusal(ErrorCode::exhausted, [&] { step(List{x}, x); }),
      HasSubstr("is called with another structure than {arg0: [*, *, *], arg1: *}; give it"));
  EXPECT_THAT(
      refusal(ErrorCode::exhausted, [&] { static_cast<void>(step.compile(List{y, y}, x)); }),
      HasSubstr("other types: argument 0 'list/0': f32[2], compiled for f32[1]; pad"));
  EXPECT_EQ(step.statistics().traces, 2U);
  EXPECT_TRUE(y.live());
  EXPECT_THAT(step(List{x, y}, x).values<float>(), ElementsAre(3));
}

// Each cause has its own text, and the message lists the first few of many types
TEST_P(ExecutorCacheTest, FullCachesSayWhy) {
  const Executor inc = plus_one({.name = "inc", .cache_max = 1});
  const Array large(device, Dims{1 << 16}, Values(1 << 16, 1));
  inc(large);
  EXPECT_THAT(refusal(ErrorCode::exhausted, [&] { inc(donate(large)); }),
              HasSubstr("is called with large arguments that are donated; compile() it ahead"));
  const Device there = Backend::open("sync_cc").physical_device(0).new_virtual_device();
  EXPECT_THAT(refusal(ErrorCode::exhausted, [&] { inc.on(there)(large); }),
              HasSubstr("is called on a device of backend 'sync_cc', after one of '"));
  const Executor first(device, [](const std::vector<Node>& list) { return list[0]; },
                       {.name = "first", .cache_max = 1});
  first(List(9, row({1})));
  EXPECT_THAT(refusal(ErrorCode::exhausted, [&] { first(List(9, row({1, 2}))); }),
              AllOf(HasSubstr("'arg0/4': f32[2], compiled for f32[1], and 4 more; pad"),
                    Not(HasSubstr("arg0/5"))));
}

// Graphs of a finalised backend make room in the cache
TEST_P(ExecutorCacheTest, GraphsOfFinalisedBackendsMakeRoom) {
  const Executor inc = plus_one({.name = "inc", .cache_max = 2});
  const Backend other = Backend::open(GetParam());
  const Device there = other.physical_device(0).new_virtual_device();
  const Array x(there, Values{1, 2});
  EXPECT_THAT(inc.on(there)(x).values<float>(), ElementsAre(2, 3));
  inc(row({1}));
  EXPECT_EQ(inc.try_call(row({1, 2})).status.code(), ErrorCode::exhausted);
  other.finalize();
  EXPECT_THAT(inc(row({1, 2})).values<float>(), ElementsAre(2, 3));
  EXPECT_EQ(inc.statistics().dropped, 1U);
  EXPECT_EQ(inc.try_call(row({1, 2, 3})).status.code(), ErrorCode::exhausted);
}

// Without a limit the cache is unbounded; the default limit is 32
TEST_P(ExecutorCacheTest, CachesHaveTheLimitThatIsAskedFor) {
  const Executor all(device, last, {.cache_max = std::nullopt}), few(device, last);
  for (int k = 1; k <= 40; ++k) all(list(k));
  for (int k = 1; k <= 32; ++k) few(list(k));
  EXPECT_EQ(all.statistics().entries, 40U);
  EXPECT_EQ(few.try_call(list(33)).status.code(), ErrorCode::exhausted);
  EXPECT_TRUE(few.try_call(list(32)));
}

// The least recently called graph is evicted, and compiled again at its next call
TEST_P(ExecutorCacheTest, CachesForgetWhatWasCalledLeastRecently) {
  const Executor inc = plus_one({.cache_max = 2, .cache_full = CacheFull::drop_least_recent});
  const Array a = row({1}), b = row({1, 2}), c = row({1, 2, 3});
  const auto compiled = inc.compile(b);
  inc(a);
  inc(b);
  inc(a);
  Gate gate(device);
  const Array before = inc(b);
  inc(a);
  inc(c);
  EXPECT_EQ(inc.statistics().dropped, 1U);
  inc(a);
  EXPECT_EQ(inc.statistics().traces, 3U);
  const Array still = compiled(b);
  EXPECT_EQ(inc.statistics().traces, 3U);
  inc(b);
  EXPECT_EQ(inc.statistics().traces, 4U);
  EXPECT_EQ(inc.statistics().dropped, 2U);
  EXPECT_EQ(inc.statistics().entries, 2U);
  gate.open();
  EXPECT_THAT(before.values<float>(), ElementsAre(2, 3));
  EXPECT_THAT(still.values<float>(), ElementsAre(2, 3));
}

// An evicting cache keeps its limit, even with several traces at once
TEST_P(ExecutorCacheTest, CachesKeepTheirLimitAmongThreads) {
  std::atomic<int> inside = 0;
  const Executor inc(device,
                     [&](const std::vector<Node>& x) {
                       ++inside;
                       wait_until([&] { return inside >= 4; });
                       return last(x);
                     },
                     {.cache_max = 2, .cache_full = CacheFull::drop_least_recent});
  in_threads(4, [&](int t) { EXPECT_EQ(inc(list(t + 1)).item<float>(), 2); });
  EXPECT_EQ(inc.statistics().traces, 4U);
  EXPECT_LE(inc.statistics().entries, 2U);
  for (int k = 1; k < 8; ++k) inc(list(k));
  EXPECT_LE(inc.statistics().entries, 2U);
}

}  // namespace
}  // namespace heddle
