// Collectives against plain loops.
#include <functional>
#include <numeric>

#include "tests/device/backends.hpp"

namespace heddle {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class CollectivesTest : public Conformance {
 protected:
  /// Opens `parties` devices, each with the tensors.
  void open(std::size_t parties, const std::vector<Tensor>& tensors) {
    contexts.clear();
    for (std::size_t k = 0; k < parties; ++k) {
      Context context(backend.physical_device(0).new_virtual_device());
      for (const Tensor& each : tensors) {
        context = context.with(
            each, BufferView(Buffer::allocate(context.device(), each.type()), each.type()));
      }
      contexts.push_back(context);
    }
  }
  /// Numbers whose sum depends on the order of additions; returns the sums in the order of devices.
  template <class T>
  std::vector<std::vector<T>> fill(const Tensor& tensor) {
    std::vector<std::vector<T>> all;
    for (std::size_t k = 0; k < contexts.size(); ++k) {
      std::vector<T> values(static_cast<std::size_t>(tensor.num_elements()));
      for (std::size_t n = 0; n < values.size(); ++n)
        values[n] = static_cast<T>(k % 2 == 0 ? 1000003 * (n % 7 + k) : n % 5) / static_cast<T>(3);
      contexts[k].write(tensor, values);
      all.push_back(std::move(values));
    }
    return all;
  }
  template <class T>
  static std::vector<T> sum(const std::vector<std::vector<T>>& all) {
    std::vector<T> result = all[0];
    for (std::size_t k = 1; k < all.size(); ++k)
      std::transform(result.begin(), result.end(), all[k].begin(), result.begin(), std::plus<T>());
    return result;
  }
  template <class T>
  void expect_all(DType dtype) {
    for (const std::size_t parties : {1u, 2u, 3u, 5u}) {
      for (const std::int64_t count : {0, 1, 13, 9001}) {
        const auto parts = static_cast<std::int64_t>(parties);
        const Tensor t("t", dtype, {count}), whole("whole", dtype, {parts, count});
        open(parties, {t, whole});
        const std::string what = std::to_string(parties) + " of " + std::to_string(count);
        const std::size_t root = parties / 2;
        auto all = fill<T>(t);
        Recording reduce;
        reduce.reduce(t, contexts, root);
        reduce.finish().run();
        for (std::size_t k = 0; k < parties; ++k)
          EXPECT_EQ(contexts[k].read<T>(t), k == root ? sum(all) : all[k]) << what;
        all = fill<T>(t);
        Recording together;
        together.all_gather(t, whole, contexts);
        together.all_reduce(t, contexts);
        together.finish().run();
        std::vector<T> gathered;
        for (const auto& each : all) gathered.insert(gathered.end(), each.begin(), each.end());
        for (const Context& each : contexts) {
          EXPECT_EQ(each.read<T>(t), sum(all)) << what;
          EXPECT_EQ(each.read<T>(whole), gathered) << what;
        }
        const auto wholes = fill<T>(whole);
        Recording scatter;
        scatter.reduce_scatter(whole, t, contexts);
        scatter.broadcast(whole, contexts, root);
        scatter.finish().run();
        const auto total = sum(wholes);
        for (std::size_t k = 0; k < parties; ++k) {
          const auto begin = total.begin() + static_cast<std::ptrdiff_t>(k) * count;
          EXPECT_EQ(contexts[k].read<T>(t), std::vector<T>(begin, begin + count)) << what;
          EXPECT_EQ(contexts[k].read<T>(whole), wholes[root]) << what;
        }
      }
    }
  }

  std::vector<Context> contexts;
};
HEDDLE_CONFORMANCE_SUITE(CollectivesTest);

// D10: results have the bits of a loop that adds in list order, for any number of devices
TEST_P(CollectivesTest, FloatsAreAddedInOrder) { expect_all<float>(f32); }
TEST_P(CollectivesTest, Integers) { expect_all<std::int32_t>(i32); }

// D10: several tensors, by one routine where memory is shared
TEST_P(CollectivesTest, SeveralAreAddedUpAtOnce) {
  const Tensor t("t", f32, {13}), u("u", f32, {2, 3}), none("none", f32, {0});
  open(3, {t, u, none});
  const auto ts = fill<float>(t), us = fill<float>(u);
  Recording recording;
  recording.reduce(std::vector{t, none, u}, contexts, 1);
  const Replay sums = recording.finish();
  if (is_cpu_row(GetParam())) {
    EXPECT_EQ(sums.num_recorded(), 1u);
  }
  sums.run();
  for (std::size_t k = 0; k < 3; ++k) {
    EXPECT_EQ(contexts[k].read<float>(t), k == 1 ? sum(ts) : ts[k]);
    EXPECT_EQ(contexts[k].read<float>(u), k == 1 ? sum(us) : us[k]);
  }
}

// D10: several tensors reduced to every device, by one routine per device where memory is shared,
// or by a single routine where there are few bytes
TEST_P(CollectivesTest, SeveralAreAddedUpForAll) {
  for (const std::int64_t count : {7, 5000}) {
    const Tensor t("t", f32, {count}), u("u", f32, {2, 3}), none("none", f32, {0});
    open(3, {t, u, none});
    const auto ts = fill<float>(t), us = fill<float>(u);
    Recording recording;
    recording.all_reduce(std::vector{t, none, u}, contexts);
    const Replay sums = recording.finish();
    if (is_cpu_row(GetParam())) {
      EXPECT_EQ(sums.num_recorded(), count == 7 ? 1u : 3u);
    }
    sums.run();
    for (const Context& each : contexts) {
      EXPECT_EQ(each.read<float>(t), sum(ts));
      EXPECT_EQ(each.read<float>(u), sum(us));
    }
  }
}

// D9, D10: repeated runs with concurrent writers: runs do not mix
TEST_P(CollectivesTest, RunsFollowEachOther) {
  const Tensor t("t", f32, {20000});
  open(4, {t});
  Index i;
  Program halve("halve");
  halve << (t(i) = t(i) * 0.25);
  const Code code = backend.compile(halve);
  std::vector<Routine> routines;
  for (const Context& each : contexts) routines.push_back(each.link(code));
  Recording recording;
  recording.all_reduce(t, contexts);
  const Replay sum = recording.finish();
  for (std::size_t k = 0; k < 4; ++k)
    contexts[k].write(t, std::vector<float>(20000, static_cast<float>(k + 1)));
  for (int round = 0; round < 20; ++round) {
    for (const Routine& each : routines) each.schedule();
    sum.run();
  }
  for (const Context& each : contexts)
    EXPECT_EQ(each.read<float>(t), std::vector<float>(20000, 2.5));
}

TEST_P(CollectivesTest, MistakesAreNamed) {
  const Tensor t("t", f32, {8}), odd("odd", f32, {9}), whole("whole", f32, {16});
  open(2, {t, odd, whole});
  Recording recording;
  const auto refused = [&](const std::function<void()>& call) {
    const Status why = failure(call);
    EXPECT_EQ(why.code(), ErrorCode::invalid_argument);
    return text(why);
  };
  EXPECT_THAT(refused([&] { recording.reduce(t, {}); }),
              AllOf(HasSubstr("reduce"), HasSubstr("'t'"), HasSubstr("context")));
  EXPECT_THAT(refused([&] { recording.broadcast(t, contexts, 2); }),
              AllOf(HasSubstr("root 2"), HasSubstr("below 2")));
  const std::vector<Context> twice{contexts[0], contexts[1], contexts[0]};
  EXPECT_THAT(refused([&] { recording.all_reduce(t, twice); }),
              AllOf(HasSubstr("0 and 2"), HasSubstr(contexts[0].device().name())));
  EXPECT_THAT(refused([&] { recording.all_gather(odd, whole, contexts); }),
              AllOf(HasSubstr("'odd'"), HasSubstr("'whole'")));
  EXPECT_THAT(refused([&] { recording.reduce_scatter(whole, odd, contexts); }), HasSubstr("'odd'"));
  const Tensor other("other", f32, {8});
  EXPECT_EQ(failure([&] { recording.all_reduce(other, contexts); }).code(), ErrorCode::not_found);
  EXPECT_EQ(recording.finish().num_recorded(), 0u);
}

// D20: memory that is used twice is named, with both contexts; the collective would read it after
// overwriting it
TEST_P(CollectivesTest, MemoryUsedTwiceIsNamed) {
  const Tensor t("t", f32, {8}), whole("whole", f32, {16});
  const auto refused = [&](const char* collective, const std::function<void(Recording&)>& call,
                           std::size_t one = 0) {
    Recording recording;
    const Status why = failure([&] { call(recording); });
    EXPECT_EQ(why.code(), ErrorCode::invalid_argument) << text(why);
    EXPECT_THAT(text(why), AllOf(HasSubstr(collective), HasSubstr("same memory twice"),
                                 HasSubstr("contexts " + std::to_string(one) + " and "),
                                 HasSubstr(contexts[one].label())));
    EXPECT_EQ(recording.finish().num_recorded(), 0u);
  };
  open(2, {t, whole});
  const std::vector<Context> apart = contexts;
  refused("all_reduce", [&](Recording& r) { r.all_reduce(std::vector{t, t}, contexts); });
  contexts[1] = Context(apart[1].device())
                    .with(whole, apart[1].view(whole))
                    .with(t, {apart[1].view(whole).buffer(), t.type()});
  refused("all_gather", [&](Recording& r) { r.all_gather(t, whole, contexts); }, 1);
  refused("reduce_scatter", [&](Recording& r) { r.reduce_scatter(whole, t, contexts); }, 1);
  if (!is_cpu_row(GetParam())) return;  // no device reaches the memory of its peers
  const auto second_has = [&](const Tensor& tensor, const BufferView& view) {
    const Context empty(apart[1].device());
    const Tensor& other = tensor == t ? whole : t;
    contexts[1] = empty.with(tensor, view).with(other, apart[1].view(other));
  };
  second_has(t, apart[0].view(t));
  refused("reduce", [&](Recording& r) { r.reduce(t, contexts, 1); }, 0);
  refused("all_reduce", [&](Recording& r) { r.all_reduce(t, contexts); });
  refused("reduce_scatter", [&](Recording& r) { r.reduce_scatter(whole, t, contexts); });
  Recording same;
  EXPECT_NO_THROW(same.broadcast(t, contexts));
  const Buffer large = Buffer::allocate(apart[0].device(), {f32, {24}});
  contexts[0] =
      Context(apart[0].device()).with(whole, {large, whole.type()}).with(t, apart[0].view(t));
  second_has(whole, {large, whole.type(), 32});
  refused("broadcast", [&](Recording& r) { r.broadcast(whole, contexts); });
  refused("all_gather", [&](Recording& r) { r.all_gather(t, whole, contexts); });
}

// D20: parts stored at their places in the whole tensors
TEST_P(CollectivesTest, PartsLieInTheirPlaces) {
  const Tensor t("t", f32, {8}), whole("whole", f32, {3, 8});
  open(3, {whole});
  for (std::size_t k = 0; k < 3; ++k)
    contexts[k] = contexts[k].with(t, {contexts[k].view(whole).buffer(), t.type(), 32 * k});
  const auto parts = fill<float>(t);
  Recording gather, scatter;
  gather.all_gather(t, whole, contexts);
  gather.finish().run();
  std::vector<float> gathered;
  for (const auto& each : parts) gathered.insert(gathered.end(), each.begin(), each.end());
  for (const Context& each : contexts) EXPECT_EQ(each.read<float>(whole), gathered);
  const auto total = sum(fill<float>(whole));
  scatter.reduce_scatter(whole, t, contexts);
  scatter.finish().run();
  for (std::size_t k = 0; k < 3; ++k) {
    const auto begin = total.begin() + static_cast<std::ptrdiff_t>(8 * k);
    EXPECT_EQ(contexts[k].read<float>(t), std::vector<float>(begin, begin + 8));
  }
}

// S10, D9: where a device fails, sums that include its part cannot be read until every input is
// written again, and no call hangs
TEST_P(CollectivesTest, FailuresReachAllThatReads) {
  const Tensor t("t", f32, {20000});
  open(3, {t});
  Recording recording;
  recording.all_reduce(t, contexts);
  const Replay together = recording.finish();
  for (std::size_t failing = 0; failing < 3; ++failing) {
    fill<float>(t);
    sched::ExternalTimeline gate("gate");
    contexts[failing].device().wait(gate.next());
    contexts[failing].device().submit("bad", [] { return Status(ErrorCode::internal, "spoilt"); });
    const std::vector<Event> ends = together.run();
    EXPECT_TRUE(gate.signal(1).ok());
    EXPECT_THAT(text(ends[failing].wait()), HasSubstr("spoilt"));
    for (const Event& each : ends) static_cast<void>(each.wait());
    for (const Context& each : contexts) each.device().recover();
    for (const Context& each : contexts)
      EXPECT_THAT(text(failure([&] { static_cast<void>(each.read<float>(t)); })),
                  HasSubstr("spoilt"));
  }
  const auto all = fill<float>(t);
  for (const Event& each : together.run()) EXPECT_TRUE(each.wait().ok());
  for (const Context& each : contexts) EXPECT_EQ(each.read<float>(t), sum(all));
}

}  // namespace
}  // namespace heddle
