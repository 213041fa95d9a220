// Data-parallel runs against plain loops, what ends them, and what they refuse.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <numeric>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "heddle/heddle.hpp"

namespace heddle {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr std::int64_t num_batches = 23, width = 3;

/// g = data[batch] - p; p -= the sum of g: each update depends on all before it, and, in floats, on
/// the order of additions.
template <class T>
class Descent {
 public:
  Descent() {
    const Index i, j;
    for (std::int64_t k = 0; k < num_batches * width; ++k)
      data_[static_cast<std::size_t>(k)] =
          static_cast<T>((k % 5 == 0 ? 1000003 : 1) * (k + 1)) / static_cast<T>(3);
    const HostArray host = HostArray::of<T>({num_batches, width}, data_);
    const Tensor data("data", host, MemoryMode::hosted_constant);
    gradient << (g(i) = data(batch, i) - p(i));
    update << (p(j) = p(j) - g(j));
  }
  [[nodiscard]] DataParallelOptions options(const Backend& backend, std::int64_t every) const {
    return {.gradient = backend.compile(gradient),
            .batch = batch,
            .sums = {g},
            .update = backend.compile(update),
            .parameters = {p},
            .merge_every = every};
  }
  /// What `p` becomes where so many devices have `batches` round robin.
  [[nodiscard]] std::vector<T> expected(std::vector<T> at, std::size_t devices, std::size_t every,
                                        const std::vector<std::int64_t>& batches) const {
    for (std::size_t first = 0; first < batches.size(); first += devices * every) {
      const std::size_t last = std::min(batches.size(), first + devices * every);
      std::vector<T> sum;
      for (std::size_t device = 0; device < devices && first + device < last; ++device) {
        std::vector<T> own;
        for (std::size_t k = first + device; k < last; k += devices) add(own, of(batches[k], at));
        add(sum, own);
      }
      for (std::size_t k = 0; k < at.size(); ++k) at[k] = at[k] - sum[k];
    }
    return at;
  }

  const Tensor p{"p", dtype_of_v<T>, {width}}, g{"g", dtype_of_v<T>, {width}};
  const StaticIndex batch{"batch", num_batches};
  Program gradient{"gradient"}, update{"update"};

 private:
  static void add(std::vector<T>& to, const std::vector<T>& more) {
    if (to.empty()) to.assign(more.size(), T{});  // -0 does not occur
    for (std::size_t k = 0; k < to.size(); ++k) to[k] = to[k] + more[k];
  }
  [[nodiscard]] std::vector<T> of(std::int64_t number, const std::vector<T>& at) const {
    std::vector<T> values(at.size());
    for (std::size_t k = 0; k < at.size(); ++k)
      values[k] = data_[static_cast<std::size_t>(number * width) + k] - at[k];
    return values;
  }

  std::vector<T> data_ = std::vector<T>(num_batches * width);
};

std::vector<Context> new_contexts(const Backend& backend, std::size_t devices) {
  std::vector<Context> contexts;
  for (std::size_t k = 0; k < devices; ++k)
    contexts.emplace_back(backend.physical_device(0).new_virtual_device());
  return contexts;
}

/// `count` batches, in no order of theirs.
std::vector<std::int64_t> some_batches(std::size_t count) {
  std::vector<std::int64_t> batches(count);
  for (std::size_t k = 0; k < count; ++k)
    batches[k] = static_cast<std::int64_t>(k * 7 + count) % num_batches;
  return batches;
}

template <class T>
void expect_reference(const Backend& backend) {
  const Descent<T> descent;
  std::vector<DataParallel> kept;  // with their code, which others need again
  for (const std::size_t devices : {1u, 2u, 3u, 4u}) {
    for (const std::size_t every : {1u, 2u, 5u}) {
      const DataParallel& run =
          kept.emplace_back(new_contexts(backend, devices),
                            descent.options(backend, static_cast<std::int64_t>(every)));
      std::vector<T> p{1, 2, 3};
      run.context().write(descent.p, p);
      for (const std::size_t count : {std::size_t{23}, std::size_t{1}, devices * every + 1}) {
        const auto batches = some_batches(count);
        const std::size_t updates = (count + devices * every - 1) / (devices * every);
        EXPECT_EQ(run.run(batches), static_cast<std::int64_t>(updates));
        p = descent.expected(p, devices, every, batches);
        for (std::size_t k = 0; k < devices; ++k) {
          EXPECT_EQ(run.context(k).template read<T>(descent.p), p)
              << count << " batches, every " << every << ", device " << k << " of " << devices;
        }
      }
    }
  }
}

// O52, D10: the bits of loops that have the batches one after the other, for each number of
// devices, where the last round and the last rounds of an update are partial, too
TEST(DataParallelTest, FloatsAreThoseOfTheLoops) { expect_reference<float>(Backend::open("cc")); }
TEST(DataParallelTest, IntegersAreThoseOfTheLoops) {
  BackendOptions options;
  options.name = "cc";
  options.mode = sched::Mode::manual;  // run() itself runs the devices
  expect_reference<std::int64_t>(Backend::open(options));
}

// O52: of exact numbers it is one device that has all batches
TEST(DataParallelTest, NumberOfDevicesDoesNotMatter) {
  const Backend backend = Backend::open("cc");
  const Descent<std::int64_t> descent;
  std::vector<std::vector<std::int64_t>> results;
  for (const std::size_t devices : {1u, 2u, 3u, 4u}) {
    const auto every = static_cast<std::int64_t>(12 / devices);
    const DataParallel run(new_contexts(backend, devices), descent.options(backend, every));
    EXPECT_EQ(run.num_devices(), devices);
    EXPECT_EQ(run.run(0, num_batches), 2);
    results.push_back(run.context().read<std::int64_t>(descent.p));
    EXPECT_EQ(results.back(), results.front()) << devices;
  }
}

// D9: runs come after each other where order is the caller's, too: device 1 runs ahead of device 0
// as far as it may
TEST(DataParallelTest, ManualSyncHasTheSameBits) {
  BackendOptions options;
  options.name = "cc";
  options.sync = Sync::manual;
  const Backend backend = Backend::open(options);
  const Descent<float> descent;
  const DataParallel run(new_contexts(backend, 2), descent.options(backend, 1));
  sched::ExternalTimeline gate("gate");
  run.context().device().wait(gate.next());
  std::jthread opener([&] {
    std::this_thread::sleep_for(100ms);
    EXPECT_TRUE(gate.signal(1).ok());
  });
  const auto batches = some_batches(8);
  run.run(batches);
  EXPECT_EQ(run.context().read<float>(descent.p), descent.expected({0, 0, 0}, 2, 1, batches));
}

class DataParallelEndsTest : public testing::Test {
 protected:
  [[nodiscard]] std::vector<float> parameters(std::size_t k = 0) const {
    return run.context(k).read<float>(descent.p);
  }

  const Backend backend = Backend::open("cc");
  const Descent<float> descent;
  const DataParallel run{new_contexts(backend, 3), descent.options(backend, 1)};
  const std::vector<std::int64_t> batches = some_batches(14);  // five updates
};

// O52: after each update, once it has ended, with its loss; the last one is always told
TEST_F(DataParallelEndsTest, ProgressIsTold) {
  const Tensor loss("loss", f64, {});
  const StaticIndex row("row", 5);
  const Tensor told("told", f32, {5});
  Program update("logs");
  const Index i;
  update << (loss() = descent.g(0)) << (told(row) = descent.g(0));
  update << (descent.p(i) = descent.p(i) - descent.g(i));
  DataParallelOptions options = descent.options(backend, 1);
  options.update = backend.compile(update);
  const DataParallel logged(new_contexts(backend, 3), options);
  std::int64_t cell = 0;
  std::vector<std::int64_t> seen;
  std::vector<float> losses;
  const auto note = [&](const DataParallelProgress& now) {
    seen.insert(seen.end(), {now.updates, now.batches});
    losses.push_back(static_cast<float>(now.loss.value()));
    ++cell;
    return true;
  };
  EXPECT_EQ(logged.run(batches, {.bindings = {{row, &cell}}, .on_update = note, .loss = loss}), 5);
  EXPECT_EQ(seen, (std::vector<std::int64_t>{1, 3, 2, 6, 3, 9, 4, 12, 5, 14}));
  EXPECT_EQ(logged.context().read<float>(told), losses);
  seen.clear();
  const Device first = logged.context().device();
  sched::ExternalTimeline gate("gate");
  first.wait(gate.next());
  std::jthread opener([&] {
    std::this_thread::sleep_for(50ms);
    EXPECT_TRUE(gate.signal(1).ok());
  });
  const auto brief = [&](const DataParallelProgress& now) {
    EXPECT_FALSE(now.loss);
    EXPECT_TRUE(first.is_idle());
    seen.push_back(now.updates);
    return true;
  };
  logged.run(batches, {.bindings = {{row, 0}}, .on_update = brief, .report_every = 2});
  EXPECT_THAT(seen, ElementsAre(2, 4, 5));
}

// O52: an early end leaves all devices with the parameters of the last update
TEST_F(DataParallelEndsTest, MayBeStoppedEarly) {
  const auto stop = [](const DataParallelProgress& now) { return now.updates < 2; };
  EXPECT_EQ(run.run(batches, {.on_update = stop}), 2);
  const std::vector<std::int64_t> had(batches.begin(), batches.begin() + 6);
  for (std::size_t k = 0; k < 3; ++k)
    EXPECT_EQ(parameters(k), descent.expected({0, 0, 0}, 3, 1, had));
}

// O52: what on_update throws is thrown on once all has ended, and the next run is like any other
TEST_F(DataParallelEndsTest, MayBeThrownOutOf) {
  sched::ExternalTimeline gate("gate");
  std::jthread opener;
  const auto cry = [&](const DataParallelProgress&) -> bool {
    run.context(2).device().wait(gate.next());
    opener = std::jthread([&] {
      std::this_thread::sleep_for(50ms);
      EXPECT_TRUE(gate.signal(1).ok());
    });
    throw std::runtime_error("enough");
  };
  EXPECT_THROW(run.run(batches, {.on_update = cry}), std::runtime_error);
  for (std::size_t k = 0; k < 3; ++k) EXPECT_TRUE(run.context(k).device().is_idle()) << k;
  run.context().write(descent.p, std::vector<float>{4, 5, 6});
  run.run(batches);
  EXPECT_EQ(parameters(), descent.expected({4, 5, 6}, 3, 1, batches));
}

// S10, O52: whichever device fails, the run ends with its failure, all devices do, and once they
// are recovered and have parameters again the next run is as the first one
TEST_F(DataParallelEndsTest, EndsWithTheFailureOfADevice) {
  for (std::size_t bad = 0; bad < 3; ++bad) {
    const Device device = run.context(bad).device();
    sched::ExternalTimeline gate("gate");
    std::jthread opener;
    const auto fail = [&](const DataParallelProgress& now) {
      if (now.updates != 2) return true;
      device.wait(gate.next());
      device.submit("bad", [] { return Status(ErrorCode::internal, "spoilt"); });
      opener = std::jthread([&] {
        std::this_thread::sleep_for(50ms);  // others come after it by then
        EXPECT_TRUE(gate.signal(1).ok());
      });
      return true;
    };
    try {
      run.run(batches, {.on_update = fail, .report_every = 2});
      ADD_FAILURE() << "nothing was thrown";
    } catch (const Error& e) {
      EXPECT_THAT(e.what(), AllOf(HasSubstr("'gradient' on 3 devices"), HasSubstr("spoilt"),
                                  HasSubstr("as " + device.name() + " failed")));
    }
    for (std::size_t k = 0; k < 3; ++k) run.context(k).device().recover();
    run.context().write(descent.p, std::vector<float>{1, 2, 3});
    run.run(batches);
    EXPECT_EQ(parameters(2), descent.expected({1, 2, 3}, 3, 1, batches)) << bad;
  }
}

template <class F>
std::string refusal(ErrorCode code, F&& call) {
  try {
    call();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), code) << e.what();
    return e.what();
  }
  return "accepted";
}

// O52: one at a time
TEST_F(DataParallelEndsTest, RunsDoNotMix) {
  const auto again = [&](const DataParallelProgress&) {
    const auto also = [&] { run.run(batches); };
    const auto told = [&] {
      EXPECT_THAT(refusal(ErrorCode::failed_precondition, also), HasSubstr("goes on"));
    };
    told();
    std::jthread other(told);
    return true;
  };
  run.run(batches, {.on_update = again});
  EXPECT_EQ(parameters(), descent.expected({0, 0, 0}, 3, 1, batches));
}

TEST_F(DataParallelEndsTest, MistakesOfARunAreNamed) {
  const auto refused = [&](const std::function<void()>& call) {
    return refusal(ErrorCode::invalid_argument, call);
  };
  const auto with = [&](const DataParallelRun& options) {
    return refused([&] { run.run(batches, options); });
  };
  EXPECT_THAT(refused([&] { run.run(5, 5); }),
              AllOf(HasSubstr("from 5 up to 5"), HasSubstr("'batch'")));
  EXPECT_THAT(refused([&] { run.run(0, std::int64_t{1} << 62); }),
              AllOf(HasSubstr("batch"), HasSubstr("22")));
  EXPECT_THAT(refused([&] { run.run(-1, 4); }), AllOf(HasSubstr("batch"), HasSubstr("-1")));
  EXPECT_THAT(refused([&] { run.run(std::vector<std::int64_t>{}); }), HasSubstr("no batches"));
  EXPECT_THAT(refused([&] { run.run(std::vector<std::int64_t>{1, 2, 3, 23}); }), HasSubstr("23"));
  EXPECT_THAT(with({.bindings = {{descent.batch, 1}}}), HasSubstr("'batch'"));
  EXPECT_THAT(with({.bindings = {{StaticIndex("other", 3), 1}}}), HasSubstr("other"));
  EXPECT_THAT(with({.report_every = 0}), HasSubstr("report_every is 0"));
  EXPECT_THAT(with({.loss = descent.p}), AllOf(HasSubstr("'p'"), HasSubstr("one element")));
  EXPECT_THAT(
      refusal(ErrorCode::not_found, [&] { run.run(batches, {.loss = Tensor("lost", f32, {})}); }),
      HasSubstr("lost"));
  EXPECT_THAT(refused([&] { static_cast<void>(run.context(3)); }), HasSubstr("below 3"));
  EXPECT_EQ(parameters(), (std::vector<float>{0, 0, 0})) << "something ran";
}

// O52
TEST(DataParallelTest, MistakesAreNamed) {
  const Backend backend = Backend::open("sync_cc");
  const Descent<float> descent;
  const DataParallelOptions right = descent.options(backend, 1);
  const std::vector<Context> contexts = new_contexts(backend, 2);
  const auto refused = [&](const std::vector<Context>& devices, const DataParallelOptions& options,
                           ErrorCode code = ErrorCode::invalid_argument) {
    return refusal(code, [&] { DataParallel(devices, options); });
  };
  const auto with = [&](const std::function<void(DataParallelOptions&)>& change) {
    DataParallelOptions options = right;
    change(options);
    return refused(contexts, options);
  };
  EXPECT_THAT(refused({}, right), HasSubstr("a context at least"));
  EXPECT_THAT(refused({contexts[0], contexts[1], contexts[0]}, right),
              AllOf(HasSubstr("data-parallel"), HasSubstr("0 and 2"),
                    HasSubstr(contexts[0].device().name())));
  const Context foreign = new_contexts(Backend::open("cc"), 1)[0];
  EXPECT_THAT(refused({contexts[0], foreign}, right),
              AllOf(HasSubstr("different backends"), HasSubstr(foreign.device().name())));
  EXPECT_THAT(with([](auto& o) { o.merge_every = 0; }), HasSubstr("merge_every is 0"));
  EXPECT_THAT(with([](auto& o) { o.sums.clear(); }), HasSubstr("no sums"));
  EXPECT_THAT(with([](auto& o) { o.sums.push_back(o.sums[0]); }), HasSubstr("'g' is listed twice"));
  EXPECT_THAT(with([](auto& o) { o.parameters = o.sums; }), HasSubstr("'g' is listed twice"));
  EXPECT_THAT(with([](auto& o) { o.sums = o.parameters, o.parameters.clear(); }),
              AllOf(HasSubstr("'gradient'"), HasSubstr("'p'")));
  const Tensor lost("lost", f32, {});
  EXPECT_THAT(with([&](auto& o) { o.sums = {lost}; }), HasSubstr("'lost'"));
  DataParallelOptions lacking = right;
  lacking.parameters = {lost};
  EXPECT_THAT(refused(contexts, lacking, ErrorCode::not_found), HasSubstr("lost"));
  EXPECT_THAT(with([](auto& o) { o.batch = StaticIndex("round", 4); }),
              HasSubstr("no static index 'round'"));
  EXPECT_THAT(with([](auto& o) { o.update = o.gradient; }),
              AllOf(HasSubstr("static index 'batch'"), HasSubstr("several batches")));
  const Index i, j;
  Program adds("adds"), merges("merges");
  const HostArray values = HostArray::range({f32, {num_batches}});
  const Tensor table("table", values, MemoryMode::hosted_constant);
  adds << (descent.g(i) += descent.p(i) + table(descent.batch));
  merges << (descent.g(j) = merge(descent.p)(j) + table(descent.batch));
  EXPECT_THAT(with([&](auto& o) { o.gradient = backend.compile(adds); }),
              AllOf(HasSubstr("'adds'"), HasSubstr("'g'"), HasSubstr("before")));
  EXPECT_THAT(with([&](auto& o) { o.gradient = backend.compile(merges), o.parameters.clear(); }),
              AllOf(HasSubstr("'merges'"), HasSubstr("merges tensor 'p'")));
}

}  // namespace
}  // namespace heddle
